"""Group the KV caches of all layers as vLLM does, and say what one block of the shared pool costs.

Verifier and drafter layers share one pool of blocks. Layers that are not all of one kind are put into groups of equal
size and page, with padding where that does not work out: this is where one odd draft layer changes the capacity of the
whole server. Source: vLLM 0.33 `v1/core/kv_cache_planning.py` (`get_kv_cache_groups` and what it calls) and
`v1/kv_cache_interface.py`, for layouts whose outermost dimension is the layer (LBNHC, LBHNC), which CUDA backends use;
block-outermost layouts (the CPU's, some sparse attention) pack pages otherwise and are not covered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["full", "sliding", "mla", "state"]
# Above this ratio of largest to smallest bucket vLLM splits to the smallest (a heuristic of its, not of ours).
_MUCH_LARGER = 1.5


class UngroupableError(Exception):
    """vLLM refuses these layers together."""


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """The cache of one layer on one rank.

    `block` is in tokens. `kv_heads` counts this rank's heads; `head_bytes` is what one head stores for one token, key
    and value together. `window` is a sliding layer's. For `state` (Mamba, gated delta net) one page holds one state of
    `head_bytes`, and a request holds `states` of them. `padded` is a larger page the layer was given, in bytes.
    """

    kind: Kind
    kv_heads: int
    head_bytes: int
    block: int
    window: int = 0
    states: int = 0
    padded: int = 0
    geometry: str = ""
    """What else makes two specs differ though their pages are equal: head size, dtype."""

    @property
    def page(self) -> int:
        """Bytes of one block of this layer (`page_size_bytes`)."""
        tokens = 1 if self.kind == "state" else self.block
        return max(self.padded, self.kv_heads * self.head_bytes * tokens)

    def blocks(self, length: int, in_flight: int) -> int:
        """Return how many blocks one request of `length` tokens holds at most.

        A sliding layer frees blocks only when a step is done, so `in_flight` tokens (concurrent batches times batch
        tokens) count beside the window, and one block more since a window need not begin at a block's start.
        """
        if self.kind == "state":
            return self.states
        if self.kind == "sliding":
            return _ceil(min(self.window - 1 + in_flight, length), self.block) + 1
        return _ceil(length, self.block)


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share a block table. `members` are indices into the layers that were grouped."""

    layers: tuple[CacheLayer, ...]
    members: tuple[int, ...]

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block over all layers of the group."""
        return sum(layer.page for layer in self.layers)

    def blocks(self, length: int, in_flight: int) -> int:
        """Return how many blocks one request of `length` tokens takes from the pool."""
        return max(layer.blocks(length, in_flight) for layer in self.layers)


def group_layers(layers: Sequence[CacheLayer]) -> tuple[Group, ...]:
    """Return the groups vLLM makes of these layers.

    Raises:
        UngroupableError: pages cannot be made equal, and no fallback applies.

    """
    if not layers:
        return ()
    if _one_type(layers):
        return (_group(layers, range(len(layers))),)
    try:
        unified = _unify_pages(layers)
    except UngroupableError:
        promoted = _promote(layers)
        if promoted is None:
            raise
        return (_group(promoted, range(len(layers))),)
    return _equal_groups(unified)


def _one_type(layers: Sequence[CacheLayer]) -> bool:
    """Say whether all layers need the same token slots, whatever their pages (`UniformTypeKVCacheSpecs`)."""
    first = layers[0]
    if any(layer.block != first.block for layer in layers):
        return False
    if first.kind in ("full", "mla"):
        return all(layer.kind in ("full", "mla") for layer in layers)
    if first.kind == "sliding":
        return all(layer.kind == "sliding" and layer.window == first.window for layer in layers)
    return all(layer.kind == "state" and layer.states == first.states and layer.page == first.page for layer in layers)


def _unify_pages(layers: Sequence[CacheLayer]) -> list[CacheLayer]:
    """Make pages equal: a smaller page gets a larger block where the ratio is whole, else padding."""
    largest = max(layer.page for layer in layers)
    unified = []
    for layer in layers:
        if layer.page == largest:
            unified.append(layer)
        elif layer.kind != "state" and largest % layer.page == 0:
            ratio = largest // layer.page
            unified.append(replace(layer, block=layer.block * ratio, padded=layer.padded * ratio))
        elif layer.kind == "mla":
            raise UngroupableError(
                f"an MLA page of {layer.page} bytes does not divide the largest page of {largest} bytes"
            )
        else:
            unified.append(replace(layer, padded=largest))
    return unified


def _promote(layers: Sequence[CacheLayer]) -> list[CacheLayer] | None:
    """Allocate sliding layers beside MLA as full ones, where that makes all layers one type."""
    kinds = {layer.kind for layer in layers}
    if not {"mla", "sliding"} <= kinds:
        return None
    blocks = {layer.block for layer in layers if layer.kind in ("full", "mla")}
    block = blocks.pop() if len(blocks) == 1 else None
    promoted = [
        replace(layer, kind="full", window=0, block=block or layer.block) if layer.kind == "sliding" else layer
        for layer in layers
    ]
    return promoted if _one_type(promoted) else None


def _equal_groups(layers: Sequence[CacheLayer]) -> tuple[Group, ...]:
    """Put layers of the same spec into groups of equal size; short groups waste the rest of their block."""
    buckets: dict[CacheLayer, list[int]] = {}
    for index, layer in enumerate(layers):
        buckets.setdefault(layer, []).append(index)
    smallest = min(map(len, buckets.values()))
    largest = max(map(len, buckets.values()))
    size = largest if largest < smallest * _MUCH_LARGER else smallest
    groups = []
    for members in buckets.values():
        count = _ceil(len(members), size)
        groups += [_group(layers, members[start::count]) for start in range(count)]
    return tuple(groups)


def _group(layers: Sequence[CacheLayer], members: Sequence[int]) -> Group:
    return Group(tuple(layers[index] for index in members), tuple(members))


def _ceil(amount: int, unit: int) -> int:
    return -(-amount // unit)
