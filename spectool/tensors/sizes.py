"""Which files a planned output will have, and how large, before a byte is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.folder import Checkpoint
from spectool.checkpoint.layout import encode_index, plan_shards
from spectool.checkpoint.writer import METADATA, OutputTensor
from spectool.formats.provenance import FILE
from spectool.record.card import CARD
from spectool.record.seal import dump_json
from spectool.tensors.execute import content_of
from spectool.writers.plan import OutputPlan


def file_sizes(
    plan: OutputPlan,
    source: Checkpoint,
    carried: Mapping[str, Path],
    shard_bytes: int,
    verifier_tensors: Mapping[str, TensorInfo] | None = None,
) -> tuple[tuple[str, int | None], ...]:
    """Return the files that `execute` would write with a card, by name; None where only writing decides the size."""
    outputs = [
        OutputTensor(item.name, item.dtype, item.shape, content_of(item, source, verifier_tensors))
        for item in plan.tensors
    ]
    shards = plan_shards(outputs, shard_bytes, METADATA)
    found: dict[str, int | None] = {shard.name: shard.nbytes for shard in shards}
    found |= {name: len(data) for name, data in encode_index(shards).items()}
    found |= {name: path.stat().st_size for name, path in carried.items()}
    found |= {"config.json": len(dump_json(plan.config)), CARD: None, FILE: None}
    return tuple(sorted(found.items()))
