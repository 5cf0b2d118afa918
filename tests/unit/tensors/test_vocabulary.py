"""d2t: offsets or absolute ids, by proof."""

from __future__ import annotations

import pytest

from spectool.tensors.vocabulary import offsets, prove


def mask(size: int, *used: int) -> list[int]:
    return [int(target in used) for target in range(size)]


@pytest.mark.parametrize(
    ("d2t", "t2d", "kind"),
    [
        ([0, 0, 0], mask(6, 0, 1, 2), "offset"),
        ([1, 1, 3], mask(6, 1, 2, 5), "offset"),
        ([1, 2, 5], mask(6, 1, 2, 5), "absolute"),
        ([1, 2, 5], None, "absolute"),  # as offsets 1, 3, 7: outside
        ([0, 1, 2], None, "ambiguous"),  # offsets 0, 2, 4, or absolute 0, 1, 2
        ([0, 1, 2], mask(6, 0, 2, 4), "offset"),
        ([0, 1, 2], mask(6, 0, 1, 2), "absolute"),
        ([0, 0, 9], mask(6, 0, 1, 2), "neither"),
        ([-1, 0, 0], None, "neither"),
        ([2, 0, 1], mask(6, 0, 1, 2), "absolute"),
    ],
)
def test_proof(d2t: list[int], t2d: list[int] | None, kind: str) -> None:
    assert prove(d2t, t2d, 6) == kind


def test_offsets_of_absolute_ids() -> None:
    assert offsets([1, 2, 5]) == b"".join(value.to_bytes(8, "little") for value in (1, 1, 3))
