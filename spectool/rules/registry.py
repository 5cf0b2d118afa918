"""Rules: each one documented object with a check, registered once. Docs, listings and reports come from it.

A check looks at a `Context` and yields what it finds; what it cannot decide it yields as `Unknown` with the missing
fact. It never falls back to a default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from spectool.drafter.model import METHODS, Method
from spectool.rules.context import Context

Severity = Literal["error", "warning", "note"]
# `trained`: decided by files and the trainer's reading alone. `engine`: about what an engine makes of this very folder,
# so it does not speak against converting the folder into another. `weights`: needs the tensors' values (`--weights`).
# `launch`: about the flags of the coming launch; runs where they are given.
# `file`: decided elsewhere, on the text of one file; no check of a folder runs it.
Scope = Literal["trained", "engine", "weights", "launch", "file"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says. `trained` and `run` are the two sides of a difference, where it is one.

    `file` (relative to the drafter's folder), `line` and `key` (a dotted key of config.json, or a tensor's name) say
    where it stands, as far as that is known; `spectool.report.places` fills them in.
    """

    code: str
    name: str
    severity: Severity
    message: str
    fix: str
    trained: str | None = None
    run: str | None = None
    file: str | None = None
    line: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A rule that could not be decided, and the fact it misses."""

    code: str
    missing: str


@dataclass(frozen=True, slots=True)
class Hit:
    """What a check yields; the registry turns it into a finding of its rule. `key`: as in `Finding`, if known."""

    message: str
    fix: str | None = None
    trained: str | None = None
    run: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Abstain:
    """What a check yields when a fact is missing."""

    missing: str


Check = Callable[[Context], Iterable[Hit | Abstain]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `fix` is what to do when a hit has no better advice of its own."""

    code: str
    name: str
    severity: Severity
    scope: Scope
    summary: str
    why: str
    fix: str
    references: tuple[str, ...]
    methods: tuple[Method, ...]
    check: Check


_RULES: dict[str, Rule] = {}


def rule(
    code: str,
    name: str,
    *,
    summary: str,
    why: str,
    fix: str,
    references: tuple[str, ...],
    severity: Severity = "error",
    scope: Scope = "trained",
    methods: tuple[Method, ...] = METHODS,
) -> Callable[[Check], Check]:
    """Register a check under a code. Codes are never reused."""

    def register(check: Check) -> Check:
        if code in _RULES or any(other.name == name for other in _RULES.values()):
            raise ValueError(f"rule {code} ({name}) is registered twice")
        _RULES[code] = Rule(code, name, severity, scope, summary, why, fix, references, methods, check)
        return check

    return register


def rules() -> dict[str, Rule]:
    """Return all rules by code."""
    # The families register on import; importing them here keeps the registry free of cycles.
    from spectool.rules import families  # noqa: PLC0415 - imported where needed: start-up stays quick

    families.load()
    return dict(sorted(_RULES.items()))


def applicable(
    method: Method, *, scopes: tuple[Scope, ...] = ("trained", "engine"), codes: Collection[str] | None = None
) -> list[Rule]:
    """Return the rules that speak about a method, in the order of their codes; `codes` None stands for all of them."""
    from spectool.rules import families  # noqa: PLC0415 - as above

    families.load(scopes)
    return [
        item
        for _, item in sorted(_RULES.items())
        if item.scope in scopes and method in item.methods and (codes is None or item.code in codes)
    ]


def run_rules(
    context: Context,
    *,
    scopes: tuple[Scope, ...] = ("trained", "engine"),
    skip: tuple[str, ...] = (),
    codes: Collection[str] | None = None,
) -> tuple[list[Finding], list[Unknown]]:
    """Run the rules of the drafter's method (`codes`: these alone), save codes that begin with one of `skip`.

    Findings come out by severity, then code.
    """
    findings: list[Finding] = []
    unknowns: list[Unknown] = []
    for item in applicable(context.method, scopes=scopes, codes=codes):
        if item.code.startswith(skip):
            continue
        for outcome in item.check(context):
            if isinstance(outcome, Abstain):
                unknowns.append(Unknown(item.code, outcome.missing))
            else:
                findings.append(finding_of(item, outcome))
    order = {"error": 0, "warning": 1, "note": 2}
    findings.sort(key=lambda finding: (order[finding.severity], finding.code))
    return findings, unknowns


def finding_of(item: Rule, hit: Hit) -> Finding:
    """Turn a hit into a finding of its rule."""
    return Finding(
        item.code,
        item.name,
        item.severity,
        hit.message,
        hit.fix or item.fix,
        hit.trained,
        hit.run,
        key=hit.key,
    )
