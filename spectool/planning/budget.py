"""Scheduler budgets: how many requests run together, and how many tokens one step may hold.

Sources: vLLM 0.33 `config/vllm.py` (`num_lookahead_tokens`, `_set_max_num_scheduled_tokens`), `config/speculative.py`
(`max_num_new_slots_for_drafting`), `config/scheduler.py`; what differs by release is in `data/planning/engine.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from spectool.drafter.model import Method, SlotLayout
from spectool.planning.gpus import Gpu
from spectool.resources import package_data

_STEP = 1024


@dataclass(frozen=True, slots=True)
class Release:
    """What a launch depends on, of one vLLM release. `slots` are (per K, constant) by method."""

    version: str
    utilization: float
    slots: Mapping[str, tuple[int, int]]
    caps_running: bool
    """Whether DFlash and DSpark lower the number of running requests to batch tokens over lookahead (silently)."""
    defaults: tuple[Mapping[str, Any], ...]
    sources: Mapping[str, str]

    def batch_defaults(self, gpu: Gpu) -> tuple[int, int]:
        """Return `max_num_batched_tokens` and `max_num_seqs` that `vllm serve` takes on this GPU by itself."""
        name = " ".join((gpu.name, *gpu.device_names)).lower()
        for item in self.defaults:
            if gpu.memory_gib >= item["from_gib"] and not any(word in name for word in item.get("not", "").split()):
                return item["batched_tokens"], item["sequences"]
        raise AssertionError("the last entry has no condition")


@dataclass(frozen=True, slots=True)
class Budget:
    """A launch's budgets.

    `batched_tokens` and `sequences` are vLLM's flags; `lookahead` the KV slots a request reserves beyond what is
    computed; `per_request` the tokens one decoding request takes of a step, `drafting` of them for its next drafts.
    """

    batched_tokens: int
    sequences: int
    lookahead: int
    per_request: int
    drafting: int

    @property
    def wanted(self) -> int:
        """Batch tokens with which all sequences can decode in one step."""
        return self.sequences * max(self.per_request, self.lookahead)

    @property
    def drafted(self) -> int:
        """Tokens drafted per round (K)."""
        return self.per_request - 1 - self.drafting

    @property
    def verified(self) -> int:
        """How many of them one step can hold, of a request that has it to itself (vLLM's scheduler cuts the rest)."""
        return min(self.drafted, self.batched_tokens - self.drafting - 1)


@cache
def _document() -> Any:
    return json.loads(package_data("planning", "engine.json").read_text(encoding="utf-8"))


def planned_releases() -> tuple[str, ...]:
    """Return the releases the planner has facts of, oldest first."""
    return tuple(_document()["releases"])


@cache
def release(version: str) -> Release:
    """Return what is known of a release spectool has facts of."""
    item = _document()["releases"][version]
    return Release(
        version=version,
        utilization=item["gpu_memory_utilization"],
        slots={method: (pair[0], pair[1]) for method, pair in item["slots"].items()},
        caps_running=item["caps_running"],
        defaults=tuple(item["defaults"]),
        sources={key: item[f"{key}_source"] for key in ("utilization", "slots", "defaults")},
    )


def in_flight_batches() -> int:
    """Return how many batches may be scheduled and not settled (asynchronous scheduling: two)."""
    return int(_document()["in_flight_batches"])


def step_tokens() -> int:
    """Return the tokens a step should hold beside a drafter: below that vLLM warns."""
    return int(_document()["step_tokens"])


def source(name: str) -> str:
    """Return where a figure of the data file comes from."""
    return str(_document()[f"{name}_source"])


def lookahead(method: Method, k: int, slots: SlotLayout | None) -> int:
    """Return the KV slots reserved past the scheduled tokens: K, and one more where a bonus query is drafted with."""
    if method == "dflash" or (method == "dspark" and slots == "bonus-anchor"):
        return k + 1
    return k


def plan_budget(
    facts: Release,
    gpu: Gpu,
    method: Method,
    k: int,
    slots: SlotLayout | None,
    *,
    floor: int = 0,
    sequences: int | None = None,
    batched_tokens: int | None = None,
) -> Budget:
    """Choose budgets with which every sequence can decode in one step; the user's own figures stay as they are.

    Args:
        facts: of the release.
        gpu: decides vLLM's own defaults, below which spectool does not go.
        method: of the drafter.
        k: tokens drafted per round.
        slots: the drafter's slot layout.
        floor: the least batch a multimodal verifier starts with.
        sequences: the user's `--max-num-seqs`.
        batched_tokens: the user's `--max-num-batched-tokens`.

    """
    default_tokens, default_sequences = facts.batch_defaults(gpu)
    factor, constant = facts.slots[method]
    drafting = factor * k + constant
    per_request = 1 + k + drafting
    ahead = lookahead(method, k, slots)
    if sequences is None:
        sequences = default_sequences
        if batched_tokens is not None:
            sequences = max(1, min(sequences, batched_tokens // max(per_request, ahead)))
    if batched_tokens is None:
        wanted = max(default_tokens, floor, sequences * max(per_request, ahead))
        batched_tokens = -(-wanted // _STEP) * _STEP
    return Budget(batched_tokens, sequences, ahead, per_request, drafting)


def budget_faults(budget: Budget, facts: Release, method: Method) -> list[str]:
    """Return what vLLM refuses in these budgets, and budgets with which it starts and verifies no draft."""
    faults = []
    tokens, sequences = budget.batched_tokens, budget.sequences
    if tokens < sequences:
        faults.append(f"max_num_batched_tokens {tokens} is below max_num_seqs {sequences}, which vLLM refuses")
    least = budget.lookahead if facts.caps_running else budget.drafting
    if tokens <= least:
        faults.append(f"max_num_batched_tokens {tokens} leaves no room to draft: {method} needs more than {least}")
    elif budget.verified < 1:
        faults.append(
            f"max_num_batched_tokens {tokens} leaves no room to verify a draft: vLLM starts and does not speculate; "
            f"all {budget.drafted} drafted tokens of a request need {budget.per_request}"
        )
    return faults


def budget_notes(budget: Budget, facts: Release, method: Method) -> list[str]:
    """Return what these budgets cost, though vLLM starts with them."""
    notes = []
    tokens, sequences = budget.batched_tokens, budget.sequences
    if facts.caps_running and method in ("dflash", "dspark") and tokens // budget.lookahead < sequences:
        notes.append(
            f"vLLM will run only {tokens // budget.lookahead} of {sequences} requests at a time: {method} drafts with "
            f"{budget.lookahead} tokens per request out of max_num_batched_tokens {tokens}"
        )
    elif 0 < budget.verified < budget.drafted:
        notes.append(
            f"only {budget.verified} of {budget.drafted} drafted tokens fit into a step: a request takes "
            f"{budget.per_request}, and max_num_batched_tokens is {tokens}"
        )
    elif tokens < budget.wanted:
        notes.append(
            f"only {tokens // budget.per_request} of {sequences} requests can decode in one step: each takes "
            f"{budget.per_request} of max_num_batched_tokens {tokens}"
        )
    return notes
