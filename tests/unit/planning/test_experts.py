"""Where the experts of a verifier lie, and what a plan says of spreading whole ones."""

from __future__ import annotations

import pytest
from plan_drafters import drafter_with
from production import verifier_document

from spectool.errors import RefusedError
from spectool.planning.budget import release
from spectool.planning.fit import Subject
from spectool.planning.gpus import parse_gpus
from spectool.planning.launch import LaunchPlan, plan_launch
from spectool.planning.models import model_of
from spectool.planning.own import own_flags
from spectool.planning.parallel import Experts, obstacles
from spectool.planning.weights import Tensor, rank_weights

MIXTURE, DENSE = "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-8B"
EXPERT = Tensor("model.layers.0.mlp.experts.0.up_proj.weight", (768, 2048), 768 * 2048 * 2)


def plan(repo: str, gpus: str, *words: str) -> LaunchPlan:
    document = verifier_document(repo)
    weights = (Tensor("layers.0.mlp.up_proj.weight", (1,), 10**6),)
    total = document["weights"]["total_size"]
    model = model_of(repo, document["config"])
    subject = Subject(model, drafter_with("dflash"), "drafter", weights, 7, None, total, "the catalogue")
    return plan_launch(subject, parse_gpus(gpus), own_flags(words), release("0.33.0"))


@pytest.mark.parametrize(
    ("experts", "ranks", "held"),
    [
        (Experts(), 2, 64),
        (Experts(copies=2), 2, 32),  # copies of the server split each expert further
        (Experts(whole=128), 2, 64),
        (Experts(copies=2, whole=128), 2, 32),
        (Experts(whole=128), 3, 43),  # the fullest rank: 128 = 43 + 43 + 42
        (Experts(whole=128), 1, 128),
    ],
)
def test_what_a_rank_holds_of_128_experts(experts: Experts, ranks: int, held: int) -> None:
    tensors = [Tensor(f"model.layers.0.mlp.experts.{number}.up_proj.weight", (768, 2048), 768) for number in range(128)]
    assert rank_weights(tensors, ranks, 4, "test", experts=experts).rank == 768 * held


def test_what_is_no_expert_is_split_by_ranks_alone() -> None:
    shared = Tensor("model.layers.0.mlp.shared_expert.up_proj.weight", (768, 2048), 600)
    assert rank_weights([shared], 2, 4, "test", experts=Experts(copies=3, whole=128)).rank == 300


def test_the_width_of_experts_matters_where_they_are_split() -> None:
    model = model_of(MIXTURE, verifier_document(MIXTURE)["config"])
    drafter = drafter_with("dflash")
    width = "4 does not divide the width of the verifier's experts (770)"
    odd = model_of(MIXTURE, {**model.config, "moe_intermediate_size": 770})
    assert obstacles(4, odd, drafter) == [width]
    assert obstacles(2, odd, drafter) == []
    assert obstacles(2, odd, drafter, Experts(copies=2)) == [width]
    assert obstacles(4, odd, drafter, Experts(whole=128)) == []


def test_the_plan_says_why_it_adds_no_flag() -> None:
    found = plan(MIXTURE, "a100-80gb:2")
    assert not any("expert" in word for flag in found.flags for word in flag.argv)
    note = next(note for note in found.notes if "experts" in note)
    assert note.startswith("each of the 128 experts is split over 2 ranks, vLLM's default; --enable-expert-parallel")
    assert "64 whole ones" in note


def test_a_single_rank_and_a_dense_verifier_need_no_word() -> None:
    for found in (plan(MIXTURE, "h200:1"), plan(DENSE, "a100-80gb:2")):
        assert not any("expert" in note for note in found.notes)


def test_the_users_flag_is_planned_with() -> None:
    split, whole = plan(MIXTURE, "a100-80gb:2"), plan(MIXTURE, "a100-80gb:2", "-ep")
    assert split.memory is not None
    assert whole.memory is not None
    assert whole.memory.lines[0].nbytes == split.memory.lines[0].nbytes
    assert any("64 of 128 whole experts lie on each of 2 ranks; the drafter has none" in note for note in whole.notes)
    assert plan(MIXTURE, "a100-80gb:2", "-ep", "--no-enable-expert-parallel").notes == split.notes


def test_copies_of_the_server_hold_less_of_each_expert() -> None:
    one, two = plan(MIXTURE, "h200:1"), plan(MIXTURE, "h200:2", "--data-parallel-size", "2")
    assert one.memory is not None
    assert two.memory is not None
    # 128 experts x 48 layers x 3 matrices of 768 x 2048 in 16 bits: half of them are gone.
    assert one.memory.lines[0].nbytes - two.memory.lines[0].nbytes == 128 * 48 * 3 * EXPERT.nbytes // 2


def test_whole_experts_of_a_verifier_without_any_are_refused() -> None:
    with pytest.raises(RefusedError, match="names no experts"):
        plan(DENSE, "a100-80gb:2", "--enable-expert-parallel")
