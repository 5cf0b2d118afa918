"""What lies in one GPU's memory, and what is left for the KV cache.

vLLM takes `ceil(total x gpu_memory_utilization)` and gives the KV cache what weights, activations and CUDA graphs leave
of it (`vllm/v1/worker/gpu_worker.py`, `determine_available_memory`). Weights and the drafter's buffers are computed;
the rest, the overhead, is a range from logs (`data/planning/overhead.json`).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

from spectool.drafter.model import Drafter
from spectool.planning.budget import Budget
from spectool.planning.weights import Weights
from spectool.resources import package_data

GIB = 2**30
Case = Literal["low", "typical", "high"]
CASES: tuple[Case, ...] = ("low", "typical", "high")
_BYTES = 2  # of one activation: both models run in 16 bits


@dataclass(frozen=True, slots=True)
class Overhead:
    """Bytes beside weights and KV cache on one GPU: the range of what logs show, and where that comes from."""

    low: int
    typical: int
    high: int
    source: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the memory table: bytes on one GPU, and where the figure comes from."""

    label: str
    nbytes: int
    source: str


@dataclass(frozen=True)
class Memory:
    """One GPU's memory in bytes. `budget` is what vLLM may use, `lines` what is known to lie in it."""

    total: int
    utilization: float
    lines: tuple[Line, ...]
    overhead: Overhead
    fixed_pool: int | None = None
    """`--kv-cache-memory-bytes`, which bypasses the budget."""

    @property
    def budget(self) -> int:
        """Bytes vLLM may use."""
        return math.ceil(self.total * self.utilization)

    @property
    def known(self) -> int:
        """Bytes of weights and buffers."""
        return sum(line.nbytes for line in self.lines)

    def pool(self, case: Case) -> int:
        """Return the bytes left for the KV cache with that overhead; below 0 where even the rest does not fit."""
        if self.fixed_pool is not None:
            return self.fixed_pool
        return self.budget - self.known - int(getattr(self.overhead, case))

    def utilization_for(self, pool: int, case: Case) -> float:
        """Return the `gpu_memory_utilization` that leaves `pool` bytes, rounded up to two digits."""
        return math.ceil(100 * (pool + self.known + int(getattr(self.overhead, case))) / self.total) / 100


@cache
def overhead(ranks: int) -> Overhead:
    """Return the overhead on one GPU of a server with so many ranks."""
    document = json.loads(package_data("planning", "overhead.json").read_text(encoding="utf-8"))
    item = document["one_gpu" if ranks == 1 else "tensor_parallel"]
    low, typical, high = (int(item[case] * GIB) for case in CASES)
    return Overhead(low, typical, high, item["source"])


def memory_lines(
    verifier: Weights, drafter_weights: Weights, drafter: Drafter, budget: Budget, k: int, ranks: int
) -> tuple[Line, ...]:
    """Return what lies in memory for certain: both models' weights, and the buffers a drafter adds."""
    buffers, source = drafter_buffers(drafter, budget, k, ranks)
    return (
        Line("verifier weights", verifier.rank, verifier.source),
        Line("drafter weights", drafter_weights.rank, drafter_weights.source),
        Line("drafter buffers", buffers, source),
    )


def drafter_buffers(drafter: Drafter, budget: Budget, k: int, ranks: int) -> tuple[int, str]:
    """Return the bytes of a drafter's own buffers on one rank, and the source of the formula.

    All keep hidden states of a whole batch; DFlash and DSpark also stage the aux hidden states of every decoding
    request, and keep a fused copy of their layers' key and value weights.
    """
    sizes = drafter.dimensions
    hidden = budget.batched_tokens * sizes.hidden_size * _BYTES
    if drafter.method == "peagle":
        return hidden, "batch tokens x hidden size (vllm/v1/spec_decode/llm_base_proposer.py)"
    rows = min(budget.sequences * (k + 1), budget.batched_tokens)
    staging = rows * len(drafter.aux_layers or ()) * sizes.target_hidden_size * _BYTES
    kv_width = 2 * max(1, sizes.num_kv_heads // ranks) * sizes.head_dim
    fused = sizes.num_layers * kv_width * sizes.hidden_size * _BYTES
    return hidden + staging + fused, (
        "hidden states, staged aux states, fused key-value weights "
        "(vllm/v1/worker/gpu/spec_decode/dflash/speculator.py, models/qwen3_dflash.py)"
    )
