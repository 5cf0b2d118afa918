"""Plan a conversion without reading weights, refuse what is not exact, and carry it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectool.dialects.detect import detect
from spectool.dialects.predicates import matches
from spectool.dialects.read import read_drafter
from spectool.drafter.compare import side_by_side
from spectool.engine.facts import EngineFacts, engine_facts, known_versions
from spectool.errors import RefusedError, UsageError
from spectool.loading import (
    hub_id,
)
from spectool.rules.registry import Finding, Unknown, rules, run_rules
from spectool.tensors.quantised import quantised

# What only some verbs need is imported when they are called: `validate` has to be quick.
if TYPE_CHECKING:
    from spectool.checkpoint.writer import WrittenFile
    from spectool.writers.plan import OutputPlan
from spectool.inspection import Inspection, gather, inspect

DEFAULT_SHARD_BYTES = 5_000_000_000


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
    from spectool.writers.speculators import write_speculators  # noqa: PLC0415 - imported where needed: start-up stays quick

    facts = engine_facts(engine)
    answers = dict(settings or {})
    found = inspect(source, verifier=verifier, settings=answers, dialect=dialect)
    refuse_variants(found)
    found.reading.require_answers()
    findings, unknowns = run_rules(gather(found, facts, engine=False), scopes=("trained",))
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
    after, _ = run_rules(gather(planned, facts))
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
    from spectool.tensors.execute import execute  # noqa: PLC0415 - imported where needed: start-up stays quick

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


def refuse_variants(found: Inspection) -> None:
    """Raise for the variants that a dialect file refuses by name, and for quantised weights."""
    method = quantised(found.view)
    if method is not None:
        message = f"{found.view.name}: the weights are quantised ({method}), which spectool does not convert"
        raise RefusedError(message, hint=rules()["QNT001"].fix, code="QNT001")
    for variant in found.dialect.file.refuse:
        if matches(variant.when, found.view):
            raise RefusedError(f"{found.view.name}: {variant.why}", hint=variant.instead or None, code=variant.code)


def _planned(found: Inspection, output: OutputPlan) -> Inspection:
    view = output.view(found.view.name)
    dialect = detect(view)
    verifier = found.verifier.view if found.verifier else None
    reading = read_drafter(view, dialect, verifier=verifier, settings=output.settled)
    return Inspection(found.source, view, dialect, reading, found.verifier)


def _require_equal(output: OutputPlan, planned: Inspection, facts: EngineFacts) -> None:
    """Hold the engine's reading of the planned output against the trainer's reading of the source, as written."""
    engine, name = gather(planned, facts).engine, planned.view.name
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
        engine = gather(planned, engine_facts(version)).engine
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
