"""From the models of a launch to the sizes the cost model takes, and what it takes none of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import pytest
from evaluation.points import target_named
from plan_drafters import drafter_with

from spectool.drafter.model import Markov
from spectool.planning.fit import Subject
from spectool.planning.models import UnknownError, model_of
from spectool.planning.own import own_flags
from spectool.planning.weights import Tensor
from spectool.speed.forecast import NotPredictedError
from spectool.speed.subject import case_of, draft_of, target_of

_DENSE: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}
_MOE = _DENSE | {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_key_value_heads": 4,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}


def tensor(name: str, *shape: int, width: int = 2) -> Tensor:
    return Tensor(name, shape, width * prod(shape))


def subject(config: Mapping[str, Any] = _DENSE, **changed: Any) -> Subject:
    about: dict[str, Any] = {
        "model": model_of("org/verifier", dict(config)),
        "drafter": drafter_with(),
        "drafter_name": "drafter",
        "drafter_tensors": [tensor("layers.0.mlp.weight", 10, 10)],
        "k": 7,
    }
    return Subject(**(about | changed))


def test_a_dense_verifier_is_counted_without_its_embedding() -> None:
    found, known = target_of(subject()), target_named("Qwen3-8B")
    assert (found.layers, found.hidden, found.experts, found.hybrid) == (36, 4096, None, False)
    # 8.19e9 parameters in all, 0.62e9 of them the embedding (planning of published points, tests/evaluation).
    assert found.parameters == pytest.approx(8_190_735_360 - 151936 * 4096, rel=1e-3)
    assert found.parameters == pytest.approx(known.parameters, rel=0.01)
    assert found.cache_bytes == 147_456 == known.cache_bytes


def test_a_mixture_of_experts_keeps_them_apart() -> None:
    found, known = target_of(subject(_MOE)), target_named("Qwen3-30B-A3B")
    assert found.experts is not None
    assert known.experts is not None
    assert (found.experts.layers, found.experts.count, found.experts.active) == (48, 128, 8)
    assert found.experts.parameters == 3 * 2048 * 768 == pytest.approx(known.experts.parameters, rel=0.01)
    assert found.parameters == pytest.approx(known.parameters, rel=0.02)


def test_headers_win_over_the_config_and_what_is_no_language_model_is_left_out() -> None:
    tensors = [
        tensor("model.embed_tokens.weight", 100, 8),
        tensor("model.layers.0.mlp.weight", 8, 8),
        tensor("visual.blocks.0.weight", 50, 50),
        tensor("mtp.layers.0.weight", 50, 50),
    ]
    # The output layer is tied: read all the same.
    assert target_of(subject(tensors=tensors)).parameters == 64 + 151936 * 4096
    tensors.append(tensor("lm_head.weight", 100, 8))
    assert target_of(subject(tensors=tensors)).parameters == 64 + 800


def test_what_was_not_measured_is_named() -> None:
    with pytest.raises(NotPredictedError, match="quantised"):
        target_of(subject(_DENSE | {"quantization_config": {"quant_method": "fp8"}}))
    wide = [tensor("model.layers.0.mlp.weight", 8, 8, width=4)]
    with pytest.raises(NotPredictedError, match="not in 16 bits"):
        target_of(subject(tensors=wide))
    # A norm or a bias in 32 bits changes nothing.
    assert target_of(subject(tensors=[tensor("model.norm.weight", 8, width=4)])).parameters == 8 + 151936 * 4096
    with pytest.raises(NotPredictedError, match="latent attention"):
        target_of(subject(_DENSE | {"kv_lora_rank": 512}, tensors=[tensor("model.norm.weight", 8)]))


def test_experts_nobody_counted_are_unknown() -> None:
    tensors = [tensor("model.layers.0.mlp.experts.0.weight", 8, 8)]
    with pytest.raises(UnknownError, match="num_experts_per_tok"):
        target_of(subject(_DENSE | {"num_experts": 8}, tensors=tensors))
    with pytest.raises(UnknownError, match="how many experts"):
        target_of(subject(_DENSE | {"num_experts": 8, "num_experts_per_tok": 9}, tensors=tensors))
    found = target_of(subject(_DENSE | {"num_experts": 8, "num_experts_per_tok": 8}, tensors=tensors)).experts
    assert found is not None
    assert found.parameters == 8  # 64 over one layer of 8


def test_a_hybrid_is_told_by_its_layers() -> None:
    tensors = [tensor("model.norm.weight", 8)]
    assert target_of(subject(_DENSE | {"layer_types": ["linear_attention"]}, tensors=tensors)).hybrid
    assert not target_of(subject(_DENSE | {"layer_types": ["full_attention"]}, tensors=tensors)).hybrid


def test_a_drafter_s_output_layer_is_read_wherever_it_comes_from() -> None:
    drafter = drafter_with(layers=5)
    own = [tensor("layers.0.mlp.weight", 10, 10), tensor("embed_tokens.weight", 99, 9), tensor("d2t", 32000)]
    assert draft_of(drafter, own).parameters == 100 + 2048 * 32000
    assert draft_of(drafter, [*own, tensor("lm_head.weight", 10, 10)]).parameters == 200
    found = draft_of(drafter, own)
    assert (found.layers, found.serial, found.markov) == (5, False, False)
    with pytest.raises(NotPredictedError, match="no weights"):
        draft_of(drafter, [tensor("embed_tokens.weight", 99, 9)])


@pytest.mark.parametrize(("kind", "expected"), [("vanilla", True), ("zero", False)])
def test_a_markov_head_of_zeros_is_a_carrier_and_costs_nothing(kind: Any, expected: bool) -> None:
    drafter = replace(drafter_with("dspark"), markov=Markov(kind=kind, rank=1))
    assert draft_of(drafter, [tensor("layers.0.weight", 2, 2)]).markov is expected


@pytest.mark.parametrize(
    ("gpu", "ranks", "flags", "why"),
    [
        ("rtx-4090", 1, (), "no kernel timings of rtx-4090; there are some of"),
        ("a100-80gb", 3, (), "no all-reduce timings of 3 x a100-80gb"),
        ("a100-80gb", 1, ("--pipeline-parallel-size", "2"), "pipeline and data parallelism"),
        ("a100-80gb", 1, ("--data-parallel-size", "2"), "pipeline and data parallelism"),
    ],
)
def test_launches_that_were_not_measured(gpu: str, ranks: int, flags: tuple[str, ...], why: str) -> None:
    with pytest.raises(NotPredictedError, match=why):
        case_of(subject(), gpu, ranks, own_flags(list(flags)))


def test_a_launch_that_was_measured() -> None:
    found = case_of(subject(), "a100-80gb", 2, own_flags([]))
    assert (found.machine.ranks, found.kind) == (2, "dense")
    with pytest.raises(NotPredictedError, match="states no"):
        case_of(subject({"model_type": "qwen3"}, tensors=[tensor("a.weight", 2, 2)]), "a100-80gb", 1, own_flags([]))
