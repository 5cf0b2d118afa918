"""spectool as a library: the verbs of the command line, without printing.

plan = plan_conversion("folder", verifier="Qwen/Qwen3-8B")
convert(plan, Path("out"))
report = validate("out", verifier="folder-of-the-verifier")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectool.checkpoint.folder import Checkpoint
from spectool.configuration.selection import EVERYTHING, Selection, Suppressed
from spectool.dialects.catalogue import Dialect, dialect_named
from spectool.dialects.detect import detect
from spectool.dialects.predicates import matches
from spectool.dialects.read import read_drafter
from spectool.dialects.record import Reading
from spectool.dialects.view import View
from spectool.drafter.compare import Row, side_by_side
from spectool.engine.facts import EngineFacts, engine_facts, known_versions
from spectool.engine.reading.read import read_engine
from spectool.engine.reading.record import EngineReading
from spectool.errors import RefusedError, UsageError
from spectool.loading import (
    LoadedVerifier,
    hub_id,
    load_drafter,
    load_verifier,
    recorded_answers,
    tokenizers_agree,
)
from spectool.rules.context import Context
from spectool.rules.registry import Finding, Hit, Scope, Unknown, applicable, finding_of, rules, run_rules
from spectool.tensors.quantised import quantised

# What only some verbs need is imported when they are called: `validate` has to be quick.
if TYPE_CHECKING:
    from spectool.checkpoint.writer import WrittenFile
    from spectool.weights.record import Weights
    from spectool.writers.plan import OutputPlan

DEFAULT_SHARD_BYTES = 5_000_000_000


@dataclass(frozen=True)
class Inspection:
    """A folder and its trainer's reading."""

    source: Checkpoint
    view: View
    dialect: Dialect
    reading: Reading
    verifier: LoadedVerifier | None


@dataclass(frozen=True)
class ConversionPlan:
    """Everything decided before a byte is written."""

    inspection: Inspection
    output: OutputPlan
    facts: EngineFacts
    verifier_name: str
    answers: Mapping[str, Any]
    findings: tuple[Finding, ...]
    unknowns: tuple[Unknown, ...]


@dataclass(frozen=True)
class Report:
    """What `validate` says: both readings side by side, and findings. `rows` is empty when nothing could be read.

    `folder` is the drafter's as it was given; `checked` are the codes of the rules that ran; `suppressed` are findings
    that the caller's `Selection` ignores.
    """

    folder: Path
    drafter: str
    verifier: str | None
    engine: str
    dialect: str | None
    method: str | None
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    unknowns: tuple[Unknown, ...]
    assumptions: tuple[tuple[str, str, str], ...]
    checked: tuple[str, ...]
    suppressed: tuple[Suppressed, ...]


@dataclass(frozen=True)
class Description:
    """What an engine has to be told of a drafter to serve it."""

    method: str
    speculative_tokens: int
    drafter: str
    verifier: str
    findings: tuple[Finding, ...]


def inspect(
    source: str, *, verifier: str | None = None, settings: Mapping[str, Any] | None = None, dialect: str | None = None
) -> Inspection:
    """Read a drafter folder as its trainer means it, from its config and headers.

    Raises:
        SourceError: the folder cannot be read.
        RefusedError: no dialect fits.

    """
    checkpoint, view = load_drafter(source)
    loaded = load_verifier(verifier) if verifier else None
    chosen = dialect_named(dialect) if dialect else detect(view)
    answers = {**recorded_answers(checkpoint), **(settings or {})}
    reading = read_drafter(view, chosen, verifier=loaded.view if loaded else None, settings=answers)
    return Inspection(checkpoint, view, chosen, reading, loaded)


def plan_conversion(
    source: str,
    *,
    verifier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    dialect: str | None = None,
    engine: str | None = None,
) -> ConversionPlan:
    """Decide a whole conversion without reading weights.

    Raises:
        QuestionError: the source leaves something open that only the user can settle.
        RefusedError: the source is faulty, cannot be held exactly, or the engine's reading of the planned output
            differs from the trainer's reading of the source.

    """
    from spectool.writers.speculators import write_speculators  # noqa: PLC0415

    facts = engine_facts(engine)
    answers = dict(settings or {})
    found = inspect(source, verifier=verifier, settings=answers, dialect=dialect)
    refuse_variants(found)
    found.reading.require_answers()
    findings, unknowns = run_rules(_context(found, facts, engine=False), scopes=("trained",))
    _refuse(found.view.name, findings)
    name = _verifier_name(answers, verifier)
    loaded = found.verifier.view if found.verifier else None
    output = write_speculators(
        found.view,
        found.reading,
        verifier=loaded,
        verifier_name=name,
        verifier_tensors=found.verifier.tensors if found.verifier else None,
    )
    planned = _planned(found, output)
    after, _ = run_rules(_context(planned, facts))
    _refuse(f"the converted {found.view.name}", after)
    _require_equal(output, planned, facts)
    if output.carrier:
        output = replace(output, notes=(*output.notes, _since(output, planned)))
    notes = tuple(finding for finding in (*findings, *after) if finding.severity != "error")
    return ConversionPlan(found, output, facts, name, answers, notes, tuple(unknowns))


def convert(
    plan: ConversionPlan,
    out: Path,
    *,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[WrittenFile, ...]:
    """Carry out a plan. The folder appears whole or not at all.

    Args:
        plan: from `plan_conversion`.
        out: the folder to make.
        shard_bytes: size in bytes above which the weights are split.
        overwrite: replace an existing folder.
        progress: called with bytes done and bytes in all.

    """
    from spectool.tensors.execute import execute  # noqa: PLC0415

    return execute(
        plan.output,
        plan.inspection.source,
        plan.inspection.reading,
        out,
        verifier_name=plan.verifier_name,
        verifier_tensors=plan.inspection.verifier.tensors if plan.inspection.verifier else None,
        engine_version=plan.facts.version,
        answers=plan.answers,
        shard_bytes=shard_bytes,
        overwrite=overwrite,
        progress=progress,
    )


def validate(
    drafter: str,
    *,
    verifier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    dialect: str | None = None,
    engine: str | None = None,
    selection: Selection = EVERYTHING,
    weights: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Put both readings of a folder side by side and run the rules.

    Args:
        drafter: its folder.
        verifier: the verifier's folder or Hub id.
        settings: answers to what the drafter does not say.
        dialect: the layout to take the folder for.
        engine: the vLLM release to speak about.
        selection: which rules run, and what is ignored. A folder of no known layout is a finding whatever it says:
            nothing else could be checked.
        weights: read the tensors' values as well, and run the rules that look at them.
        progress: called with bytes read and bytes in all, while weights are read.

    Raises:
        SourceError: the folder or the verifier cannot be read. A fault in a readable file is a finding.

    """
    facts = engine_facts(engine)
    try:
        found = inspect(drafter, verifier=verifier, settings=settings, dialect=dialect)
    except RefusedError as error:
        return _not_read(drafter, verifier, facts, error)
    context = _context(found, facts)
    scopes: tuple[Scope, ...] = ("trained", "engine")
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
    )


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


def describe(drafter: str, verifier: str | None = None, settings: Mapping[str, Any] | None = None) -> Description:
    """Return what serving a drafter needs: method, K, and where both models are.

    Raises:
        QuestionError: K is not known.
        UsageError: no verifier was given and none is recorded.

    """
    found = inspect(drafter, verifier=verifier, settings=settings)
    found.reading.require_answers()
    findings, _ = run_rules(_context(found, engine_facts()))
    target = verifier or found.reading.verifier_name
    if target is None:
        raise UsageError(f"{found.view.name} does not name its verifier", hint="Give --verifier FOLDER or org/name.")
    if found.verifier is not None and found.verifier.root is not None:
        target = str(found.verifier.root)
    tokens = found.reading.drafter.speculative_tokens or 0
    return Description(found.reading.drafter.method, tokens, str(found.source.root.resolve()), target, tuple(findings))


def refuse_variants(found: Inspection) -> None:
    """Raise for the variants that a dialect file refuses by name, and for quantised weights."""
    method = quantised(found.view)
    if method is not None:
        message = f"{found.view.name}: the weights are quantised ({method}), which spectool does not convert"
        raise RefusedError(message, hint=rules()["QNT001"].fix, code="QNT001")
    for variant in found.dialect.file.refuse:
        if matches(variant.when, found.view):
            raise RefusedError(f"{found.view.name}: {variant.why}", hint=variant.instead or None, code=variant.code)


def _context(found: Inspection, facts: EngineFacts, *, engine: bool = True) -> Context:
    """Gather what rules look at; without `engine`, nothing an engine makes of the folder speaks against it."""
    loaded = found.verifier
    tokens = found.reading.drafter.speculative_tokens
    method = found.reading.drafter.method
    view = loaded.view if loaded else None
    nothing = EngineReading(facts.version, None, ())
    return Context(
        view=found.view,
        reading=found.reading,
        engine=read_engine(found.view, method, facts, verifier=view, tokens=tokens) if engine else nothing,
        facts=facts,
        verifier=view,
        verifier_tensors=loaded.tensors if loaded else None,
        tokens=tokens,
        same_tokenizer=lambda: tokenizers_agree(found.source.root, loaded.root if loaded else None),
    )


def _planned(found: Inspection, output: OutputPlan) -> Inspection:
    view = output.view(found.view.name)
    dialect = detect(view)
    verifier = found.verifier.view if found.verifier else None
    reading = read_drafter(view, dialect, verifier=verifier, settings=output.settled)
    return Inspection(found.source, view, dialect, reading, found.verifier)


def _require_equal(output: OutputPlan, planned: Inspection, facts: EngineFacts) -> None:
    """Hold the engine's reading of the planned output against the trainer's reading of the source, as written."""
    engine, name = _context(planned, facts).engine, planned.view.name
    if engine.drafter is None:
        raise RefusedError(f"{facts.title} would refuse the converted {name}: {engine.refusals[0].message}")
    wrong = [row for row in side_by_side(output.drafter, engine.drafter) if not row.equal]
    if wrong:
        lines = "; ".join(f"{row.label}: trained as {row.trained}, {facts.title} would run {row.run}" for row in wrong)
        raise RefusedError(f"Speculators cannot hold {name} exactly for {facts.title}: {lines}")


def _since(output: OutputPlan, planned: Inspection) -> str:
    """Say from which vLLM on the planned folder is read as the drafter was trained, by the releases' sources."""
    good: list[str] = []
    for version in known_versions():
        engine = _context(planned, engine_facts(version)).engine
        equal = engine.drafter is not None and all(row.equal for row in side_by_side(output.drafter, engine.drafter))
        good = [*good, version] if equal and not engine.refusals else []
    return f"by their sources vLLM {good[0]} and later read it so" if good else "the newest vLLM does not read it so"


def _refuse(what: str, findings: list[Finding]) -> None:
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        lines = "\n  ".join(f"{finding.code} {finding.message}. {finding.fix}" for finding in errors)
        raise RefusedError(f"{what} cannot be converted:\n  {lines}", code=errors[0].code)


def _verifier_name(answers: Mapping[str, Any], verifier: str | None) -> str:
    """Return `verifier.name_or_path`: a Hub id where one is known, else a folder's base name, never a path."""
    if "verifier" in answers:
        return str(answers["verifier"])
    if verifier is None:
        raise UsageError(
            "no verifier was named", hint="Give --verifier FOLDER or org/name, or --set verifier=org/name."
        )
    return hub_id(verifier) or Path(verifier).resolve().name


def _distinct(unknowns: list[Unknown]) -> list[Unknown]:
    return list({(item.code, item.missing): item for item in unknowns}.values())


def context_of(
    view: View,
    source: Checkpoint,
    *,
    verifier: str | None,
    settings: Mapping[str, Any],
    facts: EngineFacts,
) -> Context:
    """Return what rules look at, for a view of a folder that need not be the folder's own config."""
    loaded = load_verifier(verifier) if verifier else None
    dialect = detect(view)
    reading = read_drafter(view, dialect, verifier=loaded.view if loaded else None, settings=settings)
    return _context(Inspection(source, view, dialect, reading, loaded), facts)
