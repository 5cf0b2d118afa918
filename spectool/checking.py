"""Put both readings side by side and run every rule; say what an engine must be told to serve a drafter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectool.checkpoint.folder import Checkpoint
from spectool.configuration.selection import EVERYTHING, Selection, Suppressed
from spectool.dialects.record import Reading
from spectool.drafter.compare import Row, side_by_side
from spectool.drafter.model import Method
from spectool.engine.choice import Choice, choose
from spectool.engine.facts import EngineFacts, engine_facts
from spectool.errors import RefusedError, UsageError
from spectool.loading import (
    load_drafter,
)
from spectool.rules.registry import Finding, Hit, Scope, Unknown, applicable, finding_of, rules, run_rules

# What only some verbs need is imported when they are called: `validate` has to be quick.
if TYPE_CHECKING:
    from spectool.catalogue.known import Published
    from spectool.weights.record import Weights
from spectool.inspection import Inspection, gather, inspect


@dataclass(frozen=True)
class Report:
    """What `validate` says: both readings side by side, and findings. `rows` is empty when nothing could be read.

    `folder` is the drafter's as it was given; `checked` are the codes of the rules that ran; `suppressed` are findings
    that the caller's `Selection` ignores. `published` is what the catalogue says of the drafter, None when it could not
    be read; `commit` that of the repository it was read from.
    """

    folder: Path
    drafter: str
    verifier: str | None
    engine: str
    dialect: str | None
    method: Method | None
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    unknowns: tuple[Unknown, ...]
    assumptions: tuple[tuple[str, str, str], ...]
    checked: tuple[str, ...]
    suppressed: tuple[Suppressed, ...]
    published: Published | None = None
    commit: str | None = None


@dataclass(frozen=True)
class Description:
    """What an engine has to be told of a drafter to serve it.

    Of a repository, `drafter` and `verifier` name the commit that was read; a verifier that the drafter alone names was
    not. `found` is what was read, for whoever asks more about the pair.
    """

    method: str
    speculative_tokens: int
    drafter: str
    verifier: str
    findings: tuple[Finding, ...]
    found: Inspection | None = field(default=None, repr=False, compare=False)


def validate(
    drafter: str,
    *,
    verifier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    dialect: str | None = None,
    engine: str | Choice | None = None,
    selection: Selection = EVERYTHING,
    weights: bool = False,
    progress: Callable[[int, int], None] | None = None,
    launch: Sequence[str] | None = None,
    gpus: str | None = None,
    found: Inspection | None = None,
) -> Report:
    """Put both readings of a folder side by side and run the rules.

    Args:
        drafter: its folder.
        verifier: the verifier's folder or Hub id.
        settings: answers to what the drafter does not say.
        dialect: the layout to take the folder for.
        engine: the vLLM release to speak about: `vllm==X`, `installed`, or as `spectool.engine.choice` chose it.
        selection: which rules run, and what is ignored. A folder of no known layout is a finding whatever it says:
            nothing else could be checked.
        weights: read the tensors' values as well, and run the rules that look at them.
        progress: called with bytes read and bytes in all, while weights are read.
        launch: flags of the coming `vllm serve`, as `spectool.rules.launch` reads them; None where it is not known.
        gpus: `NAME:COUNT` of the launch.
        found: the drafter and this verifier, where they were read with these settings already.

    Raises:
        SourceError: the folder or the verifier cannot be read. A fault in a readable file is a finding.
        UsageError: the release is not known.
        EngineMissingError: the installed engine is meant, and there is none.

    """
    choice = engine if isinstance(engine, Choice) else choose(engine)
    facts = choice.facts
    coming, answers = None, dict(settings or {})
    if launch is not None or gpus is not None or choice.installed is not None:
        from spectool.launch_check import coming_launch, with_launch  # noqa: PLC0415 - only with a launch

        coming = coming_launch(launch or (), gpus, choice)
        answers = with_launch(answers, coming)
    try:
        found = found or inspect(drafter, verifier=verifier, settings=answers, dialect=dialect, prove=weights)
    except RefusedError as error:
        return _not_read(drafter, verifier, facts, error)
    context = replace(gather(found, facts), choice=choice)
    scopes: tuple[Scope, ...] = ("trained", "engine")
    if coming is not None:
        scopes = (*scopes, "launch")
        from spectool.launch_check import launched  # noqa: PLC0415 - only with a launch

        context = launched(context, found, coming, gpus, answers)
    if weights:
        scopes = (*scopes, "weights")
        context = replace(context, weights=_read_weights(found, progress))
    findings, unknowns = run_rules(context, scopes=scopes, codes=selection.codes)
    counted, suppressed = selection.divide(_placed(findings, found.source, found.reading))
    return Report(
        folder=Path(drafter),
        drafter=found.view.name,
        verifier=found.verifier.name if found.verifier else None,
        engine=facts.version,
        dialect=found.dialect.file.title,
        method=context.method,
        rows=side_by_side(found.reading.drafter, context.engine.drafter),
        findings=tuple(counted),
        unknowns=tuple(_distinct(unknowns)),
        assumptions=tuple((item.field, item.value, item.why) for item in found.reading.assumptions),
        checked=tuple(item.code for item in applicable(context.method, scopes=scopes, codes=selection.codes)),
        suppressed=tuple(suppressed),
        published=found.published,
        commit=found.source.origin.commit if found.source.origin is not None else None,
    )


def describe(drafter: str, verifier: str | None = None, settings: Mapping[str, Any] | None = None) -> Description:
    """Return what serving a drafter needs: method, K, and where both models are.

    Raises:
        QuestionError: K is not known.
        UsageError: no verifier was given and none is recorded.

    """
    found = inspect(drafter, verifier=verifier, settings=settings)
    found.reading.require_answers()
    findings, _ = run_rules(gather(found, engine_facts()))
    target = verifier or found.reading.verifier_name
    if target is None:
        raise UsageError(f"{found.view.name} does not name its verifier", hint="Give --verifier FOLDER or org/name.")
    if found.verifier is not None:
        target = found.verifier.where if found.verifier.root is not None else target
    tokens = found.reading.drafter.speculative_tokens or 0
    origin = found.source.origin
    # The engine fetches a repository itself: the commit that was looked at, whatever its branch does meanwhile.
    where = str(origin) if origin is not None else str(found.source.root.resolve())
    return Description(found.reading.drafter.method, tokens, where, target, tuple(findings), found)


def _placed(findings: list[Finding], source: Checkpoint, reading: Reading | None) -> list[Finding]:
    if not findings:
        return []
    from spectool.report.places import place  # noqa: PLC0415 - only with findings

    return place(findings, source, reading)


def _read_weights(found: Inspection, progress: Callable[[int, int], None] | None) -> Weights:
    from spectool.weights.read import read_weights  # noqa: PLC0415 - only with --weights

    loaded = found.verifier
    return read_weights(
        found.source,
        found.reading,
        verifier=loaded.tensors if loaded else None,
        tied=loaded is not None and loaded.view is not None and loaded.view.tie_word_embeddings,
        progress=progress,
    )


def _not_read(drafter: str, verifier: str | None, facts: EngineFacts, error: RefusedError) -> Report:
    """Report a folder that fits no dialect, or whose weights are no safetensors files."""
    finding = finding_of(rules()[error.code or "CFG001"], Hit(error.message, error.hint))
    try:
        checkpoint, view = load_drafter(drafter)
        name, placed = view.name, tuple(_placed([finding], checkpoint, None))
    except RefusedError:
        name, placed = Path(drafter).resolve().name, (finding,)
    return Report(
        folder=Path(drafter),
        drafter=name,
        verifier=verifier,
        engine=facts.version,
        dialect=None,
        method=None,
        rows=(),
        findings=placed,
        unknowns=(),
        assumptions=(),
        checked=(finding.code,),
        suppressed=(),
    )


def _distinct(unknowns: list[Unknown]) -> list[Unknown]:
    return list({(item.code, item.missing): item for item in unknowns}.values())
