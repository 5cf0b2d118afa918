"""Which rules run, and which findings are set aside with a reason."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spectool.errors import UsageError
from spectool.rules.registry import Finding, rules


@dataclass(frozen=True, slots=True)
class Selection:
    """`codes`: the rules that run, None for all. `ignore`: code -> why its findings do not count."""

    codes: frozenset[str] | None = None
    ignore: Mapping[str, str] = field(default_factory=dict)

    def divide(self, findings: Iterable[Finding]) -> tuple[list[Finding], list[Suppressed]]:
        """Part the findings that count from those that are ignored."""
        counted: list[Finding] = []
        suppressed: list[Suppressed] = []
        for finding in findings:
            reason = self.ignore.get(finding.code)
            if reason is None:
                counted.append(finding)
            else:
                suppressed.append(Suppressed(finding, reason))
        return counted, suppressed


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that somebody decided to live with."""

    finding: Finding
    reason: str


EVERYTHING = Selection()


def make_selection(select: Iterable[str], ignore: Mapping[str, str], *, said: str = "--select") -> Selection:
    """Check codes and reasons, and spell prefixes out.

    Args:
        select: codes, or beginnings of them such as `ATT`; none: all rules.
        ignore: whole codes and the reasons.
        said: where it was asked for, as messages name it.

    Raises:
        UsageError: no rule begins so or has that code, or a reason is empty.

    """
    chosen: set[str] = set()
    wanted = [part.strip().upper() for part in select]
    for prefix in wanted:
        found = {code for code in rules() if prefix and code.startswith(prefix)}
        if not found:
            raise UsageError(f"{said}: no rule's code begins with {prefix!r}", hint=_near(prefix))
        chosen |= found
    reasons = {}
    for name, reason in ignore.items():
        code = name.strip().upper()
        if code not in rules():
            raise UsageError(f"no rule {name!r} to ignore", hint=_near(code))
        if not reason.strip():
            raise UsageError(f"ignoring {code} needs a reason", hint=f"Write --ignore '{code}=why it may stay'.")
        reasons[code] = " ".join(reason.split())
    return Selection(frozenset(chosen) if wanted else None, reasons)


def parse_ignore(texts: Iterable[str]) -> dict[str, str]:
    """Turn `--ignore CODE=reason` options into codes and reasons.

    Raises:
        UsageError: one has no reason, or a code is given twice.

    """
    reasons: dict[str, str] = {}
    for text in texts:
        code, equals, reason = text.partition("=")
        if not equals or not reason.strip():
            raise UsageError(f"--ignore {text}: a reason is required", hint=f"Write --ignore '{code}=why it may stay'.")
        if code in reasons:
            raise UsageError(f"--ignore {code} is given twice")
        reasons[code] = reason
    return reasons


def _near(code: str) -> str:
    near = difflib.get_close_matches(code, rules(), n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else "`spectool rule list` shows them all."
