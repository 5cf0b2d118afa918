"""K by load: vLLM's `num_speculative_tokens_per_batch_size`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import groupby, pairwise

Schedule = tuple[tuple[int, int, int], ...]

# A smaller K must gain this much to be worth another one: less than the error of choosing it (docs/speed.md).
WORTH = 1.02
# The end of the last step; vLLM carries the last K on beyond it (v1/spec_decode/dynamic/utils.py).
_LAST = 4096
_DYNAMIC_FROM = (0, 24)


def schedule_of(best: Mapping[int, int]) -> Schedule:
    """Return inclusive steps (first, last, K) from the best K by load; neighbours meet at their geometric mean."""
    loads = sorted(best)
    borders = [1, *(math.isqrt(low * high) + 1 for low, high in pairwise(loads)), _LAST + 1]
    steps = [(borders[at], borders[at + 1] - 1, best[load]) for at, load in enumerate(loads)]
    merged = []
    for k, group in groupby(steps, key=lambda step: step[2]):
        members = list(group)
        merged.append((members[0][0], members[-1][1], k))
    return tuple(merged)


def settle(speeds: Mapping[int, Mapping[int, float]]) -> dict[int, int]:
    """Return the K to use by load, from the speed by load and K; from one load to the next, K moves only if it pays."""
    chosen: dict[int, int] = {}
    kept: int | None = None
    for load in sorted(speeds):
        here = speeds[load]
        best = max(here, key=lambda k: (here[k], -k))
        if kept is None or kept not in here or here[best] >= WORTH * here[kept]:
            kept = best
        chosen[load] = kept
    return chosen


def why_no_schedule(method: str, version: str, copies: int) -> str | None:
    """Say why vLLM would not follow a schedule, or follow it slowly; None where it does (config/vllm.py, 0.33)."""
    if _release(version) < _DYNAMIC_FROM:
        return "K by load needs vLLM 0.24 or newer"
    if copies > 1:
        return "vLLM turns K by load off under data parallelism"
    if method == "peagle":
        return "with K by load, P-EAGLE's model runner V1 would lose its full CUDA graphs"
    return None


def _release(version: str) -> tuple[int, int]:
    major, minor = [*version.split("."), "0"][:2]
    return int(major), int(minor)
