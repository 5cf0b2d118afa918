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
from spectool.rules.registry import Finding, Unknown, run_rules
from spectool.tensors.quantised import not_carried, quantised, served_by

# What only some verbs need is imported when they are called: `validate` has to be quick.
if TYPE_CHECKING:
    from spectool.checkpoint.writer import WrittenFile
    from spectool.formats.provenance import Origin, Provenance
    from spectool.writers.plan import OutputPlan
from spectool.inspection import Inspection, gather, inspect

DEFAULT_SHARD_BYTES = 5_000_000_000
_OF_THE_FOLDERS = ("TEN005", "VER008", "VER009")


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
    same_as: Provenance | None = None


def plan_conversion(
    source: str,
    *,
    verifier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    dialect: str | None = None,
    engine: str | None = None,
    to: str = "speculators",
    verifier_name: str | None = None,
) -> ConversionPlan:
    """Decide a whole conversion without reading weights.

    Args:
        source: the drafter.
        verifier: the verifier.
        settings: answers to what the drafter does not say.
        dialect: the layout to take the source for.
        engine: the vLLM release whose reading must agree, for formats that are made for vLLM.
        to: the output format, a key of `spectool.writers.formats.FORMATS`.
        verifier_name: what to write as the verifier's name, instead of what `verifier` and `settings` make of it.

    Raises:
        QuestionError: the source leaves something open that only the user can settle.
        RefusedError: the source is faulty, cannot be held exactly, or a reading of the planned output (the engine's,
            or its own dialect file's) differs from the trainer's reading of the source.

    """
    from spectool.writers.formats import FORMATS  # noqa: PLC0415 - imported where needed: start-up stays quick

    if to not in FORMATS:
        raise UsageError(f"no output format named {to!r}", hint=f"--to takes {', '.join(FORMATS)}.")
    facts = engine_facts(engine)
    answers = dict(settings or {})
    found = inspect(source, verifier=verifier, settings=answers, dialect=dialect, need_side_files=True)
    refuse_variants(found, to)
    found.reading.require_answers()
    findings, unknowns = run_rules(gather(found, facts, engine=False), scopes=("trained",))
    _refuse(found.view.name, findings)
    name = verifier_name or _verifier_name(answers, verifier, found, needed=to == "speculators")
    output = _write(found, name, to)
    planned = _planned(found, output)
    if FORMATS[to].served:
        # Whether the verifier itself starts is `validate`'s question: the drafter's bytes do not depend on it.
        after, _ = run_rules(gather(planned, facts), skip=_OF_THE_FOLDERS)
        _refuse(f"the converted {found.view.name}", after)
        _require_equal(output, planned, facts, FORMATS[to].title)
    else:
        after, _ = run_rules(gather(planned, facts, engine=False), scopes=("trained",))
        _refuse(f"the converted {found.view.name}", after)
    if output.carrier or to == "vllm":
        output = replace(output, notes=(*output.notes, _since(output, planned)))
    notes = tuple(finding for finding in (*findings, *_new(after, findings)) if finding.severity != "error")
    return ConversionPlan(found, output, facts, name, answers, notes, tuple(unknowns))


def _write(found: Inspection, verifier_name: str, to: str) -> OutputPlan:
    from spectool.record.load import record_of  # noqa: PLC0415 - imported where needed: start-up stays quick
    from spectool.writers.export import Source, export  # noqa: PLC0415 - as above
    from spectool.writers.speculators import write_speculators  # noqa: PLC0415 - as above

    loaded = found.verifier.view if found.verifier else None
    tensors = found.verifier.tensors if found.verifier else None
    if to == "speculators":
        return write_speculators(
            found.view, found.reading, verifier=loaded, verifier_name=verifier_name, verifier_tensors=tensors
        )
    record = record_of(found.source)
    source = Source(view=found.view, reading=found.reading, verifier=loaded, verifier_tensors=tensors, record=record)
    return export(source, to)


def convert(
    plan: ConversionPlan,
    out: Path,
    *,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
    overwrite: bool = False,
    card: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[WrittenFile, ...]:
    """Carry out a plan. The folder appears whole or not at all.

    A plan of `plan_replay` brings shard size and card of its record along, and fails unless the bytes are the same.

    Args:
        plan: from `plan_conversion`.
        out: the folder to make.
        shard_bytes: size in bytes above which the weights are split.
        overwrite: replace an existing folder.
        card: the repository to write a model card (README.md) for; empty: no card.
        progress: called with bytes done and bytes in all.

    Raises:
        RefusedError: a dropped or restored tensor is not what it has to be.
        SourceError: the source cannot be read, or changed meanwhile.
        OutputError: the folder exists already, or cannot be written.

    """
    from spectool.record.build import Circumstances  # noqa: PLC0415 - imported where needed: start-up stays quick
    from spectool.record.carried import carried_files, licence_named  # noqa: PLC0415 - as above
    from spectool.tensors.execute import Request, execute  # noqa: PLC0415 - as above
    from spectool.writers.formats import FORMATS  # noqa: PLC0415 - as above

    found, recorded = plan.inspection, plan.same_as
    source, verifier = origins(plan)
    about = Circumstances(
        source=recorded.source if recorded else source,
        verifier=recorded.verifier if recorded else verifier,
        engine=f"vllm=={plan.facts.version}" if FORMATS[plan.output.format].served else "",
        answers=plan.answers,
        shard_bytes=recorded.shard_bytes if recorded else shard_bytes,
        licence=licence_named(found.source),
        card=recorded.card if recorded else card,
    )
    return execute(
        plan.output,
        found.source,
        found.reading,
        out,
        Request(
            about=about,
            overwrite=overwrite,
            carried=carried_files(found.source),
            same_as=recorded,
            progress=progress,
        ),
        found.verifier.tensors if found.verifier else None,
    )


def origins(plan: ConversionPlan) -> tuple[Origin, Origin]:
    """Return where source and verifier of a plan came from, as a record says it."""
    from spectool.record.build import config_bytes, origin_of  # noqa: PLC0415 - imported where needed: start-up stays quick

    found, loaded = plan.inspection, plan.inspection.verifier
    source = origin_of(found.view.name, found.source.origin, found.source.config_text.encode())
    root, commit = (loaded.root, loaded.origin) if loaded else (None, None)
    return source, origin_of(plan.verifier_name, commit, config_bytes(root))


def refuse_variants(found: Inspection, to: str = "speculators") -> None:
    """Raise for the variants that a dialect file refuses by name, and for quantised weights that cannot be carried."""
    method = quantised(found.view)
    if method is not None:
        why = f"no --to {to} holds them" if to != "speculators" else not_carried(found.view, found.dialect.file)
        if why is not None:
            message = (
                f"{found.view.name}: the weights are quantised ({method}), and spectool does not convert them: {why}"
            )
            raise RefusedError(message, hint=served_by(method, found.dialect.file), code="QNT001")
    for variant in found.dialect.file.refuse:
        if matches(variant.when, found.view):
            raise RefusedError(f"{found.view.name}: {variant.why}", hint=variant.instead or None, code=variant.code)


def _planned(found: Inspection, output: OutputPlan) -> Inspection:
    view = output.view(found.view.name)
    dialect = detect(view)
    verifier = found.verifier.view if found.verifier else None
    reading = read_drafter(view, dialect, verifier=verifier, settings=output.settled)
    return Inspection(found.source, view, dialect, reading, found.verifier)


def _require_equal(output: OutputPlan, planned: Inspection, facts: EngineFacts, title: str) -> None:
    """Hold the engine's reading of the planned output against the trainer's reading of the source, as written."""
    engine, name = gather(planned, facts).engine, planned.view.name
    if engine.drafter is None:
        raise RefusedError(f"{facts.title} would refuse the converted {name}: {engine.refusals[0].message}")
    wrong = [row for row in side_by_side(output.drafter, engine.drafter) if not row.equal]
    if wrong:
        lines = "; ".join(f"{row.label}: trained as {row.trained}, {facts.title} would run {row.run}" for row in wrong)
        raise RefusedError(f"{title} files cannot hold {name} exactly for {facts.title}: {lines}")


def _since(output: OutputPlan, planned: Inspection) -> str:
    """Say from which vLLM on the planned folder is read as the drafter was trained, by the releases' sources."""
    good: list[str] = []
    for version in known_versions():
        engine = gather(planned, engine_facts(version)).engine
        equal = engine.drafter is not None and all(row.equal for row in side_by_side(output.drafter, engine.drafter))
        good = [*good, version] if equal and not engine.refusals else []
    return f"by their sources vLLM {good[0]} and later read it so" if good else "the newest vLLM does not read it so"


def _new(after: list[Finding], before: list[Finding]) -> list[Finding]:
    """Return what is said of the output and was not said of the source in the same words."""
    said = {(finding.code, finding.message) for finding in before}
    return [finding for finding in after if (finding.code, finding.message) not in said]


def _refuse(what: str, findings: list[Finding]) -> None:
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        lines = "\n  ".join(f"{finding.code} {finding.message}. {finding.fix}" for finding in errors)
        raise RefusedError(f"{what} cannot be converted:\n  {lines}", code=errors[0].code)


def _verifier_name(answers: Mapping[str, Any], verifier: str | None, found: Inspection, *, needed: bool) -> str:
    """Return `verifier.name_or_path`: a Hub id where one is known, else a folder's base name, never a path.

    A Speculators source names its verifier itself; formats that store no name can do without.
    """
    if "verifier" in answers:
        return str(answers["verifier"])
    if verifier is not None:
        return hub_id(verifier) or Path(verifier).resolve().name
    stated = found.reading.verifier_name
    if stated:
        plain = stated.count("/") == 1 and stated[0] not in "/.~"
        return stated if plain else Path(stated).name
    if needed:
        raise UsageError(
            "no verifier was named", hint="Give --verifier FOLDER or org/name, or --set verifier=org/name."
        )
    return ""
