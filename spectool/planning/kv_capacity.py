"""How many tokens a KV cache of so many bytes holds, as vLLM counts and logs them.

Source: vLLM 0.33 `v1/core/kv_cache_utils.py` (`get_kv_cache_capacity`, `get_max_concurrency_for_kv_cache_config`) and
`v1/core/kv_cache_planning.py` (`_check_enough_kv_cache_memory`, `_pool_bytes_per_block`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectool.planning.kv_groups import CacheLayer, Group, group_layers


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a pool holds.

    `tokens` is the log's "GPU KV cache size": concurrency times `length`, so it depends on `length` where layers slide.
    """

    length: int
    block_bytes: int
    blocks: int
    blocks_per_request: int
    groups: tuple[Group, ...]

    @property
    def concurrency(self) -> float:
        """How many requests of `length` tokens fit at the same time."""
        return self.blocks / self.blocks_per_request

    @property
    def tokens(self) -> int:
        """Tokens the pool holds ("GPU KV cache size")."""
        return int(self.concurrency * self.length)

    @property
    def fits(self) -> bool:
        """Whether vLLM starts: one request of `length` fits beside the null block the pool holds back."""
        return self.blocks_per_request <= self.blocks - 1

    @property
    def needed(self) -> int:
        """Bytes the pool must have at least for one request of `length`."""
        return (self.blocks_per_request + 1) * self.block_bytes


def capacity(layers: Sequence[CacheLayer], pool: int, length: int, in_flight: int) -> Capacity:
    """Return what a pool of `pool` bytes on one rank holds for requests of `length` tokens.

    Args:
        layers: the caches of verifier and drafter on this rank; at least one.
        pool: bytes for the KV cache ("Available KV cache memory").
        length: `max_model_len` in tokens.
        in_flight: tokens scheduled and not settled: concurrent batches times `max_num_batched_tokens`.

    Raises:
        UngroupableError: vLLM refuses these layers together.

    """
    return held(group_layers(layers), pool, length, in_flight)


def held(groups: tuple[Group, ...], pool: int, length: int, in_flight: int) -> Capacity:
    """Return the same for layers that are grouped already."""
    block_bytes = max(group.bytes_per_block for group in groups)
    per_request = sum(group.blocks(length, in_flight) for group in groups)
    return Capacity(length, block_bytes, max(0, pool // block_bytes), per_request, groups)


def longest(layers: Sequence[CacheLayer], pool: int, limit: int, in_flight: int) -> int:
    """Return the largest length up to `limit` of which one request fits; 0 where not even one token does."""
    groups = group_layers(layers)
    if not held(groups, pool, 1, in_flight).fits:
        return 0
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if held(groups, pool, middle, in_flight).fits:
            low = middle
        else:
            high = middle - 1
    return low
