"""Expert parallelism: what `--enable-expert-parallel` does to a verifier with experts, and to a drafter without.

Sources: vLLM 0.33 `config/model.py` (`_verify_with_expert_parallelism`), `config/parallel.py` (EPLB),
`config/speculative.py` (`create_draft_parallel_config`: a drafter without experts does not inherit it, from 0.31 on),
`model_executor/layers/fused_moe/config.py` (`FusedMoEParallelConfig.make`), `expert_map_manager.py`.
"""

from __future__ import annotations

from spectool.errors import RefusedError
from spectool.planning.fit import Sizing
from spectool.planning.models import Model
from spectool.planning.own import Own

FLAG = "--enable-expert-parallel"
# Overhead on each GPU of the one log with experts in parallel (data/planning/overhead.json, gb200x4-unknown).
_OVERHEAD_SEEN = 12.3


def refuse_experts(model: Model, own: Own) -> None:
    """Refuse what vLLM refuses.

    Raises:
        RefusedError: the verifier has no experts.

    """
    if own.expert_parallel and not model.experts:
        raise RefusedError(
            f"{FLAG}: {model.name}/config.json names no experts, and vLLM refuses the flag then",
            hint=f"Leave {FLAG} out.",
        )


def expert_notes(sizing: Sizing, ranks: int) -> list[str]:
    """Say where the experts lie, why no flag is added, and what the one given means."""
    experts, spread = sizing.subject.model.experts, sizing.experts
    over = ranks * spread.copies
    if not experts or over == 1:
        return []
    if not spread.whole:
        instead = f"{FLAG} would put {-(-experts // over)} whole ones on each"
        why = "It is not advised: nothing published says which is faster with a drafter"
        return [f"each of the {experts} experts is split over {over} ranks, vLLM's default; {instead}. {why}"]
    where = f"{spread.held(ranks)} of {experts} whole experts lie on each of {over} ranks"
    uneven = ", on the fullest" if experts % over else ""
    overhead = f"the one log with experts in parallel had an overhead of {_OVERHEAD_SEEN} GiB, more than was counted"
    return [f"{where}{uneven}; the drafter has none and is split as without {FLAG}", overhead]
