"""Does it fit: weights, drafter, overhead and KV cache on so many GPUs, and what would help where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spectool.drafter.model import Drafter
from spectool.planning.budget import Budget, in_flight_batches
from spectool.planning.gpus import Gpu
from spectool.planning.kv_capacity import Capacity, capacity, longest
from spectool.planning.kv_groups import CacheLayer
from spectool.planning.kv_layers import BLOCK, CacheSettings, all_layers
from spectool.planning.memory import CASES, GIB, Case, Memory, memory_lines, overhead
from spectool.planning.models import Model, UnknownError
from spectool.planning.own import Own
from spectool.planning.parallel import SPLIT, Experts, candidates
from spectool.planning.weights import Sized, Weights, rank_weights, verifier_weights

_ROUND = 1024
_HIGHEST_UTILIZATION = 0.95
_MOST_GPUS = 8


@dataclass(frozen=True)
class Subject:
    """Both models, as planning sees them.

    `tensors` are the verifier's from its headers; without them `total` bytes (from `total_source`) or the config tell.
    `other_names` are further names of the verifier, such as the one the drafter records.
    """

    model: Model
    drafter: Drafter
    drafter_name: str
    drafter_tensors: Sequence[Sized]
    k: int
    tensors: Sequence[Sized] | None = None
    total: int | None = None
    total_source: str = ""
    other_names: tuple[str, ...] = ()
    _verifier: dict[tuple[int, Experts], Weights] = field(default_factory=dict, init=False, repr=False, compare=False)

    def verifier(self, ranks: int, experts: Experts = SPLIT) -> Weights:
        """Return the verifier's weights on one of so many ranks.

        Raises:
            UnknownError: they are not known.

        """
        key = ranks, experts
        if key not in self._verifier:
            self._verifier[key] = verifier_weights(
                self.model, self.tensors, ranks, self.total, self.total_source, experts
            )
        return self._verifier[key]


@dataclass(frozen=True)
class Sizing:
    """Everything that decides the memory, but the number of ranks and the length."""

    subject: Subject
    gpu: Gpu
    budget: Budget
    own: Own
    utilization: float

    @property
    def experts(self) -> Experts:
        """How the verifier's experts are spread."""
        return spread(self.subject.model, self.own)

    @property
    def in_flight(self) -> int:
        """Tokens that may be scheduled and not settled."""
        return (in_flight_batches() if self.own.async_scheduling else 1) * self.budget.batched_tokens

    def memory(self, ranks: int) -> Memory:
        """Return what lies in one GPU's memory.

        Raises:
            UnknownError: the verifier's weights are not known.

        """
        subject = self.subject
        verifier = subject.verifier(ranks, self.experts)
        drafter = rank_weights(subject.drafter_tensors, ranks, subject.drafter.dimensions.num_kv_heads, "headers")
        lines = memory_lines(verifier, drafter, subject.drafter, self.budget, subject.k, ranks)
        return Memory(self.gpu.memory, self.utilization, lines, overhead(ranks), self.own.kv_bytes)

    def layers(self, ranks: int) -> list[CacheLayer]:
        """Return the KV caches of both models on one rank.

        Raises:
            UnknownError: how vLLM caches the verifier's layers is not known.

        """
        settings = CacheSettings(
            tensor_parallel=ranks,
            block=self.own.block or BLOCK,
            dtype=self.own.kv_dtype or "auto",
            draft_dtype=self.own.draft_kv_dtype,
            speculative_tokens=self.subject.k,
            prefix_caching=self.own.prefix_caching,
        )
        return all_layers(self.subject.model, self.subject.drafter, settings)

    def at(self, ranks: int) -> Fit:
        """Return the fit on so many ranks.

        Raises:
            UnknownError: weights or caches are not known.
            UngroupableError: vLLM refuses the caches of both models together.

        """
        if self.own.uncounted:
            raise UnknownError(f"{', '.join(self.own.uncounted)}: how much that changes is not known to spectool")
        return Fit(self.memory(ranks), tuple(self.layers(ranks)), self.in_flight)


def spread(model: Model, own: Own) -> Experts:
    """Return how the user's flags spread a verifier's experts."""
    return Experts(own.data_parallel or 1, model.experts if own.expert_parallel else 0)


@dataclass(frozen=True)
class Fit:
    """One GPU's memory and the caches that must find room in it."""

    memory: Memory
    layers: tuple[CacheLayer, ...]
    in_flight: int

    def capacity(self, case: Case, length: int) -> Capacity:
        """Return what the KV cache holds with that overhead."""
        return capacity(self.layers, max(0, self.memory.pool(case)), length, self.in_flight)

    def fits(self, case: Case, length: int) -> bool:
        """Say whether vLLM starts with that overhead."""
        return self.memory.pool(case) > 0 and self.capacity(case, length).fits

    def longest(self, case: Case, limit: int) -> int:
        """Return the longest `max_model_len` up to `limit` that starts, a multiple of 1024 below the limit; or 0."""
        pool = self.memory.pool(case)
        if pool <= 0:
            return 0
        found = longest(self.layers, pool, limit, self.in_flight)
        return found if found == limit else found // _ROUND * _ROUND

    def chosen(self, limit: int) -> tuple[int, Case]:
        """Return the longest length that starts, and the overhead it is safe for: the highest, if possible."""
        for case in reversed(CASES):
            length = self.longest(case, limit)
            if length:
                return length, case
        return 0, "low"


def starts(case: Case) -> str:
    """Say how sure it is that a length starts which is safe for this overhead."""
    return {
        "high": "surely starts",
        "typical": "starts with the usual overhead",
        "low": "starts with the lowest overhead seen",
    }[case]


def safe_for(fit: Fit, length: int) -> Case:
    """Return the highest overhead with which a length starts that starts at all."""
    return next((case for case in reversed(CASES) if fit.fits(case, length)), "low")


def shortage(fit: Fit, length: int) -> str:
    """Say by how much a length does not fit, with the lowest overhead logs show."""
    memory = fit.memory
    needed = fit.capacity("low", length).needed
    missing = needed - memory.pool("low")
    parts = ", ".join(f"{line.label} {_gib(line.nbytes)}" for line in memory.lines[:2])
    return (
        f"{_gib(missing)} GiB too little on each GPU: of {_gib(memory.total)} GiB vLLM may use {_gib(memory.budget)}, "
        f"{parts} GiB, at least {_gib(memory.overhead.low)} GiB go to activations and graphs, and one request of "
        f"{length} tokens needs {_gib(needed)} GiB of KV cache"
    )


def remedies(sizing: Sizing, ranks: int, length: int) -> str:
    """Return what would make it fit: a shorter length, a higher utilisation, more GPUs; empty where nothing would."""
    fit = sizing.at(ranks)
    found = []
    shorter = fit.chosen(length)[0]
    if 0 < shorter < length:
        found.append(f"--max-model-len {shorter}")
    higher = fit.memory.utilization_for(fit.capacity("low", length).needed, "low")
    if fit.memory.utilization < higher <= _HIGHEST_UTILIZATION:
        found.append(f"--gpu-memory-utilization {higher:.2f}, if nothing else uses the GPU")
    for more in candidates(_MOST_GPUS, sizing.subject.model, sizing.subject.drafter, sizing.experts):
        if more > ranks and sizing.at(more).fits("high", length):
            found.append(f"--gpus {sizing.gpu.name}:{more}")
            break
    return " or ".join(found)


def _gib(nbytes: int) -> str:
    return f"{nbytes / GIB:.1f}"
