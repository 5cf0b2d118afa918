"""Refusals, questions and notes of the planner, on a verifier from the catalogue and made-up drafters."""

from __future__ import annotations

from typing import Any

import pytest
from plan_drafters import drafter_with
from production import verifier_document

from spectool.drafter.model import Drafter, Method
from spectool.errors import RefusedError, UsageError
from spectool.planning.budget import release
from spectool.planning.fit import Subject
from spectool.planning.gpus import parse_gpus
from spectool.planning.launch import LaunchPlan, plan_launch
from spectool.planning.memory import GIB, Overhead
from spectool.planning.models import model_of
from spectool.planning.own import own_flags
from spectool.planning.parallel import candidates, obstacles
from spectool.planning.weights import Tensor

REPO = "Qwen/Qwen3-30B-A3B"


def subject(method: Method = "dflash", *, repo: str = REPO, drafter: Drafter | None = None, **change: Any) -> Subject:
    """The verifier with some keys changed, and a drafter."""
    document = verifier_document(repo)
    config = {**document["config"], **change}
    weights = (Tensor("layers.0.mlp.up_proj.weight", (1,), 10**9),)
    chosen = drafter or drafter_with(method)
    return Subject(
        model_of(repo, config), chosen, "drafter", weights, 7, None, document["weights"]["total_size"], "the catalogue"
    )


def plan(given: Subject, gpus: str, *words: str, version: str = "0.33.0") -> LaunchPlan:
    return plan_launch(given, parse_gpus(gpus), own_flags(words), release(version))


def flag(found: LaunchPlan, name: str) -> str | None:
    values = [item.argv[1] for item in found.flags if item.argv[0] == name]
    return values[0] if values else None


def test_all_gpus_are_used_where_both_models_divide() -> None:
    found = plan(subject(), "a100-80gb:2")
    assert flag(found, "--tensor-parallel-size") == "2"
    assert flag(found, "--reasoning-parser") == "qwen3"
    assert "--tool-call-parser hermes" in found.notes[0]


def test_gpus_that_divide_nothing_stay_idle() -> None:
    found = plan(subject(), "a100-80gb:3")
    assert found.tensor_parallel == 2
    assert "1 of 3 x a100-80gb stay idle" in found.notes[0]


def test_both_models_must_divide() -> None:
    model = subject().model
    drafter = drafter_with(heads=12, kv_heads=12)
    assert candidates(8, model, subject().drafter) == [1, 2, 4, 8]
    assert candidates(8, model, drafter) == [1, 2, 4]
    assert obstacles(8, model, drafter) == [
        "8 does not divide the drafter's heads (12)",
        "8 neither divides the drafter's kv heads (12) nor is a multiple of them",
    ]


def test_the_users_tensor_parallel_size_is_checked() -> None:
    with pytest.raises(RefusedError, match="3 does not divide the verifier's heads") as caught:
        plan(subject(), "a100-80gb:4", "--tensor-parallel-size", "3")
    assert caught.value.hint == "These divide both models: 1, 2, 4."
    with pytest.raises(UsageError, match="needs more than 2 x a100-80gb"):
        plan(subject(), "a100-80gb:2", "-tp", "4")
    found = plan(subject(), "a100-80gb:2", "-tp", "2")
    assert flag(found, "--tensor-parallel-size") is None


def test_copies_share_the_gpus() -> None:
    assert plan(subject(), "a100-80gb:4", "--data-parallel-size", "2").tensor_parallel == 2


def test_what_does_not_fit_says_by_how_much_and_what_helps() -> None:
    with pytest.raises(RefusedError, match=r"18\.\d GiB too little on each GPU") as caught:
        plan(subject(), "l40s:1")
    assert caught.value.hint == "--gpus l40s:2 would help."


def test_a_length_that_does_not_fit() -> None:
    long = subject(max_position_embeddings=10**7)
    with pytest.raises(RefusedError, match="one request of 4000000 tokens") as caught:
        plan(long, "a100-80gb:2", "--max-model-len", "4m")
    assert "--max-model-len" in (caught.value.hint or "")


def test_an_open_length_is_the_longest_that_surely_starts() -> None:
    found = plan(subject(max_position_embeddings=10**7), "a100-80gb:2")
    assert found.length is not None
    assert found.length % 1024 == 0
    assert found.capacities is not None
    assert found.capacities["high"].fits
    assert any("longest that surely starts" in note for note in found.notes)
    assert flag(found, "--max-model-len") == str(found.length)


@pytest.mark.parametrize(
    ("overhead", "sure", "note"),
    [
        ((1, 1, 1), "surely starts", None),
        ((1, 1, 70), "starts with the usual overhead", "it fits with the usual overhead, not with the highest"),
        ((1, 70, 70), "starts with the lowest overhead seen", "GiB are missing on each GPU and it does not start"),
    ],
)
def test_no_length_is_called_surer_than_it_is(
    overhead: tuple[int, int, int], sure: str, note: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, typical, high = (size * GIB for size in overhead)
    monkeypatch.setattr("spectool.planning.fit.overhead", lambda ranks: Overhead(low, typical, high, "made up"))
    found = plan(subject(max_position_embeddings=10**7), "a100-80gb:2")
    (reason,) = [item.reason for item in found.flags if item.argv[0] == "--max-model-len"]
    assert reason == f"the longest that {sure}"
    assert any(f"the longest that {sure};" in item for item in found.notes)
    said = [item for item in found.notes if "usual overhead" in item and "longest" not in item]
    assert len(said) == (note is not None)
    assert note is None or note in said[0]


def test_no_longer_than_either_model() -> None:
    assert flag(plan(subject(drafter=drafter_with(longest=8192)), "a100-80gb:2"), "--max-model-len") == "8192"
    with pytest.raises(RefusedError, match="drafter's max_position_embeddings 8192"):
        plan(subject(drafter=drafter_with(longest=8192)), "a100-80gb:2", "--max-model-len", "16384")
    with pytest.raises(RefusedError, match="verifier's max_position_embeddings 40960"):
        plan(subject(), "a100-80gb:2", "--max-model-len", "65536")
    overridden = plan(subject(), "a100-80gb:2", "--max-model-len", "65536", "--hf-overrides", "{}")
    assert overridden.length == 65536


def test_the_users_flags_are_not_repeated() -> None:
    words = (
        *("--max-model-len", "8192", "--max-num-seqs", "64", "--max-num-batched-tokens", "4096"),
        *("--gpu-memory-utilization", "0.8", "--reasoning-parser", "none", "-tp", "2"),
    )
    found = plan(subject(), "a100-80gb:2", *words)
    assert found.flags == ()
    assert found.memory is not None
    assert found.memory.utilization == 0.8


def test_a_budget_vllm_refuses() -> None:
    with pytest.raises(RefusedError, match="no room to draft") as caught:
        plan(subject(), "a100-80gb:2", "--max-num-batched-tokens", "8", "--max-num-seqs", "8")
    assert caught.value.hint == "--max-num-batched-tokens 64 has room for all."


def test_what_a_runner_cannot_do() -> None:
    with pytest.raises(RefusedError, match="--enable-dbo"):
        plan(subject("dspark"), "a100-80gb:2", "--enable-dbo")
    with pytest.raises(RefusedError, match="P-EAGLE does not run with --pipeline-parallel-size"):
        plan(subject("peagle"), "a100-80gb:2", "-pp", "2")
    assert plan(subject("dspark"), "a100-80gb:2", "-pp", "2").memory is None
    assert plan(subject("peagle"), "a100-80gb:2").runner == "V1"
    assert plan(subject("dspark"), "a100-80gb:2").runner == "V2"


def test_a_peagle_whose_layers_vllm_would_separate() -> None:
    """On a verifier whose layers slide by turns, full draft layers go to several groups."""
    config = {"model_type": "gpt_oss", "num_hidden_layers": 36, "sliding_window": 128, "num_key_value_heads": 8}
    with pytest.raises(RefusedError, match="into 2 KV cache groups"):
        plan(subject(drafter=drafter_with("peagle", layers=12, kv_heads=8), **config), "a100-80gb:2")
    assert plan(subject(drafter=drafter_with("peagle", layers=4, kv_heads=8), **config), "a100-80gb:2").runner == "V1"


def test_unknown_memory_still_plans_and_says_so() -> None:
    odd = subject(model_type="deepseek_v3")
    found = plan(odd, "a100-80gb:2")
    assert found.capacities is None
    assert "model_type 'deepseek_v3'" in found.unknown[0]
    assert flag(found, "--tensor-parallel-size") == "2"
    offloaded = plan(subject(), "a100-80gb:2", "--cpu-offload-gb", "10")
    assert "--cpu-offload-gb" in offloaded.unknown[0]


def test_a_fixed_cache_bypasses_the_budget() -> None:
    found = plan(subject(), "a100-80gb:2", "--kv-cache-memory-bytes", "10G")
    assert found.memory is not None
    assert found.memory.pool("high") == found.memory.pool("low") == 10 * 2**30
    assert flag(found, "--gpu-memory-utilization") is None


def test_another_release_has_other_budgets() -> None:
    few = plan(subject(), "a100-80gb:2", "--max-num-seqs", "1024", version="0.32.0")
    assert few.budget.batched_tokens == 1024 * (1 + 7 + 7)
    assert plan(subject(), "a100-80gb:2", "--max-num-seqs", "1024").budget.batched_tokens == 1024 * 8


def reason(found: LaunchPlan, name: str) -> str:
    return next(item.reason for item in found.flags if item.argv[0] == name)


def test_steps_are_as_long_as_vllm_advises_where_the_cache_can_spare_it() -> None:
    full = plan(subject(), "a100-80gb:2")
    assert flag(full, "--max-num-batched-tokens") == "8192"
    assert "would take 2048 by itself" in reason(full, "--max-num-batched-tokens")
    assert not any("--max-num-batched-tokens" in note for note in full.notes)
    mine = plan(subject(), "a100-80gb:2", "--max-num-batched-tokens", "2048")
    assert mine.budget.batched_tokens == 2048  # the user's own figure stays
    larger = plan(subject(), "h200:2")
    assert flag(larger, "--max-num-batched-tokens") == "8192"
    assert "vLLM's own default on this GPU" in reason(larger, "--max-num-batched-tokens")


@pytest.mark.parametrize(
    ("repo", "gpus", "raised"),
    [
        (REPO, "a100-80gb:2", True),
        (REPO, "a100-40gb:4", True),
        ("google/gemma-4-31B-it", "a100-80gb:2", False),
        ("google/gemma-4-31B-it", "a100-80gb:4", False),
    ],
)
def test_longer_steps_cost_less_than_a_tenth_of_the_cache(repo: str, gpus: str, raised: bool) -> None:
    """Two steps in flight lie in the cache of every sliding layer."""
    found = plan(subject(repo=repo), gpus)
    least = str(found.budget.batched_tokens) if not raised else "2048"
    smaller, larger = (
        plan(subject(repo=repo), gpus, "--max-num-batched-tokens", tokens).capacities for tokens in (least, "8192")
    )
    assert smaller is not None
    assert larger is not None
    assert (larger["high"].tokens >= 0.9 * smaller["high"].tokens) is raised
    assert (found.budget.batched_tokens == 8192) is raised
    assert any("8192 with a drafter" in note and "tokens of KV cache" in note for note in found.notes) is not raised


def test_a_verifier_without_a_recipe_gets_no_parser() -> None:
    found = plan(subject(repo="Qwen/Qwen3-14B"), "a100-80gb:2")
    assert flag(found, "--reasoning-parser") is None
