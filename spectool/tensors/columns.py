"""Plan every output tensor of a drafter: names, column blocks in the order of sorted aux layers, vocabulary maps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from spectool.dialects.record import Reading
from spectool.dialects.view import View
from spectool.errors import RefusedError
from spectool.tensors.vocabulary import plan_vocabulary
from spectool.writers.plan import PlannedTensor

# Tensors whose last dimension is one block per aux layer.
_BLOCKS = {"fc.weight", "mask_hidden", "input_norm.weight"}
_PER_AUX = re.compile(r"fc_norm\.(\d+)\.(.+)")


def order_of(aux_layers: Sequence[int]) -> tuple[int, ...] | None:
    """Return, per position in ascending order, where that aux layer stood; None when it is ascending already."""
    order = tuple(sorted(range(len(aux_layers)), key=lambda index: aux_layers[index]))
    return None if order == tuple(range(len(order))) else order


def plan_tensors(
    view: View, reading: Reading, order: tuple[int, ...] | None, *, mask_row: bool = False
) -> tuple[tuple[PlannedTensor, ...], dict[str, str]]:
    """Return the output tensors, sorted by name, and what is dropped with the reason.

    Args:
        view: the source.
        reading: its trainer's reading.
        order: where each aux layer stood (`order_of`).
        mask_row: the caller finds a place for a mask token's row beside the weights.

    Raises:
        RefusedError: a source tensor has no place, or a vocabulary map is neither of the known kinds.

    """
    placements = reading.placements
    if placements.unplaced or placements.collisions:
        names = [*placements.unplaced, *(second for _, second, _ in placements.collisions)]
        raise RefusedError(f"{view.name}: no place for {', '.join(names)}", code="TEN002")
    dropped = dict(placements.dropped)
    tensors = []
    for name, item in placements.placed.items():
        if item.op == "mask-row" and not mask_row:
            raise RefusedError(f"{view.name}: this format has no place for {item.source}", code="MSK005")
        if item.op in {"vocabulary", "mask-row"}:
            continue  # made of more than their own bytes, here below or by the writer
        header = view.tensors[item.source]
        planned = PlannedTensor(name, header.dtype, item.shape(header.shape), item.source, item.op)
        tensors.append(planned if order is None else _reordered(planned, order))
    maps, dropped_maps = plan_vocabulary(view, reading)
    dropped |= dropped_maps
    return tuple(sorted([*tensors, *maps], key=lambda tensor: tensor.name)), dropped


def _reordered(tensor: PlannedTensor, order: tuple[int, ...]) -> PlannedTensor:
    if tensor.name in _BLOCKS:
        return replace(tensor, order=order, operation=f"{tensor.operation}, column blocks permuted to {list(order)}")
    match = _PER_AUX.fullmatch(tensor.name)
    if match is None:
        return tensor
    place = order.index(int(match[1]))
    return replace(tensor, name=f"fc_norm.{place}.{match[2]}", operation="rename")
