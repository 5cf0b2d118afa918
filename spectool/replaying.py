"""Repeat a recorded conversion, and prove an output against its record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spectool.conversion import ConversionPlan, origins, plan_conversion
from spectool.dialects.catalogue import extended
from spectool.dialects.predicates import as_text
from spectool.dialects.sources import parse_setting
from spectool.errors import RefusedError, UsageError
from spectool.formats.provenance import Origin
from spectool.record.load import read_record
from spectool.record.replay import require_intact, require_origin
from spectool.record.verify import Problem, Verification, verify

__all__ = ["Problem", "Verification", "plan_replay", "verify"]


def plan_replay(record_path: str, source: str | None = None, verifier: str | None = None) -> ConversionPlan:
    """Plan a recorded conversion anew; carried out by `convert`, it succeeds only with the recorded bytes.

    Args:
        record_path: a `provenance.json`, or the folder that holds it.
        source: the recorded source; may be left out where the record names a commit of the Hub.
        verifier: the recorded verifier, likewise.

    Raises:
        SourceError: there is no record, or the source cannot be read.
        UsageError: the record does not say where source or verifier can be had, and none is given.
        RefusedError: the record was edited, or source, verifier or dialect file are not the recorded ones.

    """
    record = read_record(Path(record_path))
    require_intact(record, record_path)
    known = extended().get(record.dialect.name)
    if known is None or known.sha256 != record.dialect.sha256:
        raise RefusedError(
            f"the dialect file {record.dialect.name} of this spectool is not the recorded one",
            hint=f"Repeat it with spectool {record.tool.version}.",
        )
    where = source or _address(record.source)
    if where is None:
        raise UsageError(
            f"the record names no commit of the Hub for {record.source.name}",
            hint="Give the source: spectool convert SOURCE OUT --replay RECORD.",
        )
    plan = plan_conversion(
        where,
        verifier=verifier or _address(record.verifier),
        settings={key: parse_setting(key, as_text(value)) for key, value in record.answers.items()},
        dialect=record.dialect.name,
        engine=record.engine or None,
        to=record.format,
        verifier_name=record.verifier.name,
    )
    for what, recorded, found in zip(
        ("source", "verifier"), (record.source, record.verifier), origins(plan), strict=True
    ):
        require_origin(what, recorded, found)
    return replace(plan, same_as=record)


def _address(origin: Origin) -> str | None:
    return None if origin.repository is None or origin.commit is None else f"{origin.repository}@{origin.commit}"
