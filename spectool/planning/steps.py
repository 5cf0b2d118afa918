"""How many tokens a step holds: the size vLLM advises beside a drafter, where the KV cache can spare it.

Below that size vLLM warns that it may be slow, and keeps its own smaller default on some GPUs nevertheless. A larger
step costs cache where the verifier's layers slide, since two steps may be in flight.
"""

from __future__ import annotations

from dataclasses import replace

from spectool.planning.budget import step_tokens
from spectool.planning.fit import Sizing
from spectool.planning.kv_groups import UngroupableError
from spectool.planning.models import UnknownError

# The share of the KV cache a larger step may cost before it is left to the user.
_DEAR = 0.1


def advised_steps(sizing: Sizing, ranks: int, limit: int | None) -> tuple[Sizing, list[str]]:
    """Return the sizing with the step vLLM advises, or as it was and why.

    Args:
        sizing: with a budget in which every request can draft.
        ranks: the tensor-parallel size.
        limit: the longest length both models were made for, in tokens.

    """
    least = step_tokens()
    if sizing.own.batched_tokens is not None or sizing.budget.batched_tokens >= least:
        return sizing, []
    larger = replace(sizing, budget=replace(sizing.budget, batched_tokens=least))
    kept = f"vLLM advises --max-num-batched-tokens {least} with a drafter, and will say so"
    wanted = sizing.own.length or limit
    if wanted is None or (sizing.own.pipeline_parallel or 1) > 1:
        return sizing, [f"{kept}: whether memory has room for it is not known"]
    try:
        before, after = sizing.at(ranks), larger.at(ranks)
    except (UnknownError, UngroupableError):
        return sizing, [f"{kept}: whether memory has room for it is not known"]
    length, case = before.chosen(wanted)
    if not length:
        return sizing, []  # it does not fit at all
    if after.chosen(wanted) != (length, case):
        return sizing, [f"{kept}: requests of {length} tokens would not surely fit beside it"]
    tokens, left = before.capacity(case, length).tokens, after.capacity(case, length).tokens
    if left < tokens * (1 - _DEAR):
        return sizing, [f"{kept}: it would leave {left:,} of {tokens:,} tokens of KV cache"]
    return larger, []
