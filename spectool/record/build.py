"""Make the record of a conversion from what was planned, proved and written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectool import __version__
from spectool.checkpoint.origin import Origin as Commit
from spectool.checkpoint.writer import WrittenFile
from spectool.dialects.record import Reading
from spectool.drafter.compare import LABELS, show
from spectool.formats import provenance as record
from spectool.writers.plan import OutputPlan


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What a record says beside the plan. `card`: the repository a model card was written for, empty without one."""

    source: record.Origin
    verifier: record.Origin
    engine: str
    answers: Mapping[str, Any]
    shard_bytes: int
    licence: str = ""
    card: str = ""


def origin_of(name: str, commit: Commit | None, config: bytes | None) -> record.Origin:
    """Return where a model came from: its name, the commit it was read at, and the digest of its config.json."""
    return record.Origin(
        name=name,
        repository=commit.repo if commit else None,
        commit=commit.commit if commit else None,
        sha256=None if config is None else hashlib.sha256(config).hexdigest(),
    )


def config_bytes(root: Path | None) -> bytes | None:
    """Return a folder's config.json; None where there is none to read."""
    try:
        return None if root is None else (root / "config.json").read_bytes()
    except OSError:
        return None


def build(
    plan: OutputPlan,
    reading: Reading,
    files: Sequence[WrittenFile],
    proved: Mapping[str, str],
    about: Circumstances,
) -> record.Provenance:
    """Return the record, unsealed.

    Args:
        plan: what was planned.
        reading: the trainer's reading of the source.
        files: everything written but the record.
        proved: digests of dropped tensors that were read, by source name.
        about: the rest.

    """
    digests = {name: digest for file in files for name, digest in file.tensors.items()}
    return record.Provenance(
        tool=record.Named(name="spectool", version=__version__),
        dialect=record.Named(name=reading.dialect.file.dialect, sha256=reading.dialect.sha256),
        format=plan.format,
        source=about.source,
        verifier=about.verifier,
        engine=about.engine,
        evidence=reading.dialect.file.evidence,
        licence=about.licence,
        shard_bytes=about.shard_bytes,
        card=about.card,
        answers=dict(about.answers),
        settled=dict(plan.settled),
        drafter=_drafter(plan, reading),
        assumptions=tuple(
            record.AssumptionRecord(field=item.field, value=item.value, why=item.why) for item in reading.assumptions
        ),
        notes=plan.notes,
        tensors=tuple(
            record.TensorRecord(
                name=item.name,
                origin=item.origin,
                source=item.source,
                operation=item.operation,
                scale=item.scale,
                sha256=digests[item.name],
            )
            for item in plan.tensors
        ),
        dropped={name: _dropped(name, why, plan, proved) for name, why in sorted(plan.dropped.items())},
        files=tuple(written(item) for item in sorted(files, key=lambda item: item.name)),
    )


def written(file: WrittenFile) -> record.OutputFile:
    """Return what a record says of a file."""
    return record.OutputFile(name=file.name, nbytes=file.nbytes, sha256=file.sha256)


def with_file(document: record.Provenance, name: str, data: bytes) -> record.Provenance:
    """Return a record with one more file."""
    more = record.OutputFile(name=name, nbytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    files = tuple(sorted((*document.files, more), key=lambda item: item.name))
    return document.model_copy(update={"files": files})


def _drafter(plan: OutputPlan, reading: Reading) -> dict[str, record.ValueRecord]:
    fields = [*LABELS, "block_size", "speculative_tokens"]
    found = {}
    for name in fields:
        where = reading.evidence[name].where if name in reading.evidence else ""
        found[name] = record.ValueRecord(value=show(getattr(plan.drafter, name)), where=where)
    return found


def _dropped(name: str, why: str, plan: OutputPlan, proved: Mapping[str, str]) -> record.DroppedRecord:
    restore = plan.restore.get(name)
    if restore is None:
        return record.DroppedRecord(why=why)
    return record.DroppedRecord(
        why=why, origin=restore.origin, source=restore.name, scale=restore.scale, sha256=proved.get(name)
    )
