"""Turn a planned output into a folder: bytes are moved, and a record is written beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectool.checkpoint.content import Content, FileRange, Inline, Overlaid, PermutedColumns, Zeros, scaled_bf16
from spectool.checkpoint.entries import DTYPE_BITS, TensorInfo
from spectool.checkpoint.folder import Checkpoint
from spectool.checkpoint.writer import OutputTensor, WrittenFile, write_checkpoint
from spectool.dialects.record import Reading
from spectool.errors import RefusedError
from spectool.formats import provenance as record
from spectool.record.build import Circumstances, build, with_file
from spectool.record.card import CARD, card
from spectool.record.replay import require_same
from spectool.record.seal import dump_json, sealed, spelled
from spectool.tensors.proofs import prove_dropped
from spectool.writers.plan import OutputPlan, PlannedTensor


def content_of(tensor: PlannedTensor, source: Checkpoint, verifier: Mapping[str, TensorInfo] | None = None) -> Content:
    """Return where a tensor's bytes come from."""
    if tensor.data is not None:
        return Inline(tensor.data)
    if tensor.origin == "zeros":
        return Zeros(math.prod(tensor.shape) * DTYPE_BITS[tensor.dtype] // 8)
    if tensor.origin == "verifier":
        borrowed = (verifier or {})[tensor.source]
        if tensor.scale == 1.0:
            return FileRange(borrowed.file, borrowed.start, borrowed.nbytes)
        return scaled_bf16(borrowed.file, borrowed.start, borrowed.nbytes, tensor.scale)
    if tensor.into:
        borrowed, row = (verifier or {})[tensor.into], source.read(tensor.source)
        return Overlaid(borrowed.file, borrowed.start, borrowed.nbytes, row, tensor.row * len(row))
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


@dataclass(frozen=True, kw_only=True)
class Request:
    """How a plan is carried out. `carried` are files of the source that go along; `same_as` a record to be repeated."""

    about: Circumstances
    overwrite: bool = False
    carried: Mapping[str, Path]
    same_as: record.Provenance | None = None
    progress: Callable[[int, int], None] | None = None


def execute(
    plan: OutputPlan,
    source: Checkpoint,
    reading: Reading,
    out: Path,
    request: Request,
    verifier_tensors: Mapping[str, TensorInfo] | None = None,
) -> tuple[WrittenFile, ...]:
    """Write the planned folder with its `provenance.json`, whole or not at all.

    Raises:
        SourceError: the source changed or could not be read.
        OutputError: the folder exists already, or could not be written.
        RefusedError: a dropped or restored tensor is not what it has to be, or the output is not the one recorded.

    """
    proved = prove_dropped(plan.proofs, source, verifier_tensors)
    outputs = [
        OutputTensor(item.name, item.dtype, item.shape, content_of(item, source, verifier_tensors))
        for item in plan.tensors
    ]

    def finish(files: Sequence[WrittenFile]) -> Mapping[str, bytes]:
        _require_restored(plan, files)
        document = build(plan, reading, files, proved, request.about)
        last: dict[str, bytes] = {}
        if request.about.card:
            last[CARD] = card(document).encode()
            document = with_file(document, CARD, last[CARD])
        document = sealed(document)
        if request.same_as is not None:
            require_same(document, request.same_as)
        return {**last, record.FILE: spelled(document)}

    return write_checkpoint(
        out,
        outputs,
        {"config.json": dump_json(plan.config)},
        shard_bytes=request.about.shard_bytes,
        overwrite=request.overwrite,
        side_files=request.carried,
        finish=finish,
        progress=request.progress,
    )


def _require_restored(plan: OutputPlan, files: Sequence[WrittenFile]) -> None:
    digests = {name: digest for file in files for name, digest in file.tensors.items()}
    for name, wanted in plan.expected.items():
        if digests[name] != wanted:
            raise RefusedError(
                f"{name} of this verifier is not the tensor that was dropped",
                hint="Give the verifier the drafter was converted with.",
            )
