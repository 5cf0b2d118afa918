"""Turn a planned output into a folder: bytes are moved, and a record is written beside them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spectool import __version__
from spectool.checkpoint.content import Content, FileRange, Inline, PermutedColumns, Zeros, scaled_bf16
from spectool.checkpoint.folder import Checkpoint
from spectool.checkpoint.header import DTYPE_BITS, TensorInfo
from spectool.checkpoint.writer import OutputTensor, WrittenFile, write_checkpoint
from spectool.dialects.record import Reading
from spectool.formats import provenance as record
from spectool.writers.plan import OutputPlan, PlannedTensor


def dump_json(document: object) -> bytes:
    """Spell a JSON document as every output file of spectool is spelled."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def content_of(tensor: PlannedTensor, source: Checkpoint, verifier: Mapping[str, TensorInfo] | None = None) -> Content:
    """Return where a tensor's bytes come from."""
    if tensor.data is not None:
        return Inline(tensor.data)
    if tensor.origin == "zeros":
        return Zeros(math.prod(tensor.shape) * DTYPE_BITS[tensor.dtype] // 8)
    if tensor.origin == "verifier":
        borrowed = (verifier or {})[tensor.source]
        return scaled_bf16(borrowed.file, borrowed.start, borrowed.nbytes, tensor.scale)
    info = source.tensors[tensor.source]
    if tensor.order is None:
        return FileRange(info.file, info.start, info.nbytes)
    columns = info.shape[-1]
    rows = 1
    for length in info.shape[:-1]:
        rows *= length
    block = info.nbytes // rows // len(tensor.order)
    if columns % len(tensor.order):  # AUX004 was checked before planning
        raise ValueError(f"{tensor.name}: {columns} columns are not {len(tensor.order)} blocks")
    return PermutedColumns(info.file, info.start, rows, block, tensor.order)


def execute(
    plan: OutputPlan,
    source: Checkpoint,
    reading: Reading,
    out: Path,
    *,
    verifier_name: str,
    verifier_tensors: Mapping[str, TensorInfo] | None = None,
    engine_version: str,
    answers: Mapping[str, Any],
    shard_bytes: int,
    overwrite: bool,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[WrittenFile, ...]:
    """Write the planned folder with its `provenance.json`, whole or not at all.

    Raises:
        SourceError: the source changed or could not be read.
        OutputError: the folder exists already, or could not be written.

    """
    outputs = [
        OutputTensor(item.name, item.dtype, item.shape, content_of(item, source, verifier_tensors))
        for item in plan.tensors
    ]

    def finish(files: Sequence[WrittenFile]) -> Mapping[str, bytes]:
        document = provenance(
            plan, source, reading, files, verifier_name=verifier_name, engine_version=engine_version, answers=answers
        )
        return {record.FILE: dump_json(document.model_dump(mode="json", exclude_none=True))}

    return write_checkpoint(
        out,
        outputs,
        {"config.json": dump_json(plan.config)},
        shard_bytes=shard_bytes,
        overwrite=overwrite,
        finish=finish,
        progress=progress,
    )


def provenance(
    plan: OutputPlan,
    source: Checkpoint,
    reading: Reading,
    files: Sequence[WrittenFile],
    *,
    verifier_name: str,
    engine_version: str,
    answers: Mapping[str, Any],
) -> record.Provenance:
    """Return the record of a conversion."""
    return record.Provenance(
        tool=record.Named(name="spectool", version=__version__),
        dialect=record.Named(name=reading.dialect.file.dialect, sha256=reading.dialect.sha256),
        source=record.Named(
            name=source.root.resolve().name, sha256=hashlib.sha256(source.config_text.encode()).hexdigest()
        ),
        verifier=verifier_name,
        engine=f"vllm=={engine_version}",
        evidence=reading.dialect.file.evidence,
        answers=dict(answers),
        settled=dict(plan.settled),
        assumptions=tuple(
            record.AssumptionRecord(field=item.field, value=item.value, why=item.why) for item in reading.assumptions
        ),
        tensors=tuple(
            record.TensorRecord(name=item.name, source=item.source, operation=item.operation) for item in plan.tensors
        ),
        dropped=dict(sorted(plan.dropped.items())),
        files=tuple(
            record.OutputFile(name=item.name, nbytes=item.nbytes, sha256=item.sha256)
            for item in sorted(files, key=lambda item: item.name)
        ),
    )
