"""Which tensor-parallel sizes divide both models, and how experts are spread.

Sources: vLLM 0.33 `config/model.py` (`verify_with_parallel_config`), the attention layers' own asserts
(`qwen3_dflash.py`, `llama.py`, `qwen3.py`, `gemma4.py`: heads % TP, and kv heads % TP or TP % kv heads) and
`layers/linear.py` (`divide`). Draft layers are split over the verifier's ranks, whatever `draft_tensor_parallel_size`.
Experts: `layers/fused_moe/config.py` (`FusedMoEParallelConfig.make`, and the assertion on `intermediate_size`). Copies
of the server (data parallelism) split each expert further; with expert parallelism none is split.
"""

from __future__ import annotations

from dataclasses import dataclass

from spectool.drafter.model import Drafter
from spectool.formats.lookup import is_int
from spectool.planning.models import Model


@dataclass(frozen=True, slots=True)
class Experts:
    """How experts are spread: over the ranks of all `copies` of a server.

    `whole`: experts of a layer, where each rank holds whole ones (expert parallelism); 0 where every one is split.
    """

    copies: int = 1
    whole: int = 0

    def held(self, ranks: int) -> int:
        """Return how many whole experts the fullest of all ranks holds (vLLM's expert_map_manager.py)."""
        return -(-self.whole // (ranks * self.copies))


SPLIT = Experts()
"""One server, without expert parallelism."""


def obstacles(ranks: int, model: Model, drafter: Drafter, experts: Experts = SPLIT) -> list[str]:
    """Return why vLLM cannot split these models over so many ranks; empty where it can."""
    sizes = drafter.dimensions
    found = []
    for what, count in (("the verifier's heads", model.heads), ("the drafter's heads", sizes.num_heads)):
        found += _divides(what, count, ranks)
    for what, count in (("the verifier's", model.kv_heads), ("the drafter's", sizes.num_kv_heads)):
        found += _replicates(f"{what} kv heads", count, ranks)
    for key, what, replicates in (
        ("num_global_key_value_heads", "the verifier's global kv heads", True),
        ("intermediate_size", "the verifier's MLP width", False),
        ("linear_num_key_heads", "the verifier's linear key heads", False),
        ("linear_num_value_heads", "the verifier's linear value heads", False),
    ):
        stated = model.text.get(key)
        if is_int(stated) and stated > 0:
            found += _replicates(what, stated, ranks) if replicates else _divides(what, stated, ranks)
    width = model.text.get("moe_intermediate_size")
    if is_int(width) and width > 0 and not experts.whole:
        found += _divides("the width of the verifier's experts", width, ranks * experts.copies)
    return [*found, *_divides("the drafter's MLP width", sizes.intermediate_size, ranks)]


def candidates(gpus: int, model: Model, drafter: Drafter, experts: Experts = SPLIT) -> list[int]:
    """Return the tensor-parallel sizes up to `gpus` that divide both models, ascending."""
    most = min(gpus, drafter.dimensions.num_heads)  # more than its heads divide nothing, however many GPUs are named
    return [ranks for ranks in range(1, most + 1) if not obstacles(ranks, model, drafter, experts)]


def _divides(what: str, count: int, ranks: int) -> list[str]:
    return [] if count % ranks == 0 else [f"{ranks} does not divide {what} ({count})"]


def _replicates(what: str, count: int, ranks: int) -> list[str]:
    if count % ranks == 0 or ranks % count == 0:
        return []
    return [f"{ranks} neither divides {what} ({count}) nor is a multiple of them"]
