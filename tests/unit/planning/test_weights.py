from __future__ import annotations

from math import prod

import pytest
from production import verifier_document

from spectool.planning.models import Model, UnknownError, model_of
from spectool.planning.shapes import verifier_shapes
from spectool.planning.weights import Tensor, rank_weights, verifier_weights


def known(repo: str) -> Model:
    return model_of(repo, verifier_document(repo)["config"])


@pytest.mark.parametrize(
    ("repo", "parameters"),
    [
        ("Qwen/Qwen3-4B", 4_022_468_096),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-14B", 14_768_307_200),
        ("Qwen/Qwen3-32B", 32_762_123_264),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
        ("meta-llama/Llama-3.3-70B-Instruct", 70_553_706_496),
        ("google/gemma-4-31B-it", 30_697_345_340),  # the language model
    ],
)
def test_counted_parameters_are_the_published_ones(repo: str, parameters: int) -> None:
    assert sum(prod(shape) for shape in verifier_shapes(known(repo)).values()) == parameters


def tensor(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, 2 * prod(shape))


@pytest.mark.parametrize(
    ("name", "shape", "share"),
    [
        ("model.layers.0.self_attn.q_proj.weight", (64, 32), 1 / 4),
        ("model.layers.0.self_attn.k_proj.weight", (16, 32), 1 / 2),  # two heads on four ranks: each twice
        ("model.layers.0.self_attn.o_proj.weight", (32, 64), 1 / 4),
        ("model.layers.0.self_attn.o_proj.bias", (32,), 1),
        ("model.layers.0.mlp.experts.3.down_proj.weight", (32, 64), 1 / 4),
        ("model.layers.0.mlp.gate.weight", (8, 32), 1),
        ("model.layers.0.input_layernorm.weight", (32,), 1),
        ("model.layers.0.linear_attn.in_proj_qkvz.weight", (64, 32), 1 / 4),
        ("model.layers.0.linear_attn.conv1d.weight", (64, 1, 4), 1 / 4),  # its digit is no layer's
        ("lm_head.weight", (256, 32), 1 / 4),
        ("embed_tokens.weight", (130, 32), 48 / 130),  # padded to 192 rows
        ("model.vision_tower.layers.0.self_attn.q_proj.weight", (64, 32), 1),
        ("fc.weight", (32, 96), 1),
        ("markov_head.markov_w1.weight", (256, 8), 1),
        ("markov_head.markov_w2.weight", (256, 8), 1),
        ("confidence_head.proj.weight", (1, 40), 1),
        ("t2d", (256,), 0),
        ("mtp.layers.0.mlp.up_proj.weight", (64, 32), 0),
    ],
)
def test_what_one_of_four_ranks_holds(name: str, shape: tuple[int, ...], share: float) -> None:
    given = tensor(name, *shape)
    found = rank_weights([given], 4, 2, "test")
    assert found.rank == pytest.approx(given.nbytes * share)
    assert found.whole == (given.nbytes if share == 1 else 0)


def test_layers_and_experts_that_are_alike_are_all_counted() -> None:
    names = [f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight" for layer in range(12) for expert in range(11)]
    found = rank_weights([tensor(name, 64, 32) for name in names], 4, 2, "test")
    assert (found.total, found.rank) == (132 * 64 * 32 * 2, 33 * 64 * 32 * 2)


def test_a_tied_output_layer_is_loaded_once() -> None:
    tensors = [tensor("model.embed_tokens.weight", 256, 32), tensor("lm_head.weight", 256, 32)]
    assert rank_weights(tensors, 1, 2, "test", tied=True).rank == tensors[0].nbytes


def test_gemma_4_loads_keys_as_values_too() -> None:
    model = known("google/gemma-4-31B-it")
    total = 62_545_461_248
    weights = verifier_weights(model, None, 1, total, "the catalogue")
    assert weights.rank - total == 10 * 2 * 2048 * 5376
    assert weights.rank == pytest.approx(58.99 * 2**30, rel=0.01)  # what vLLM logs


@pytest.mark.parametrize(("repo", "gib"), [("Qwen/Qwen3-8B", 15.27), ("Qwen/Qwen3-30B-A3B", 56.88)])
def test_what_vllm_logs(repo: str, gib: float) -> None:
    assert verifier_weights(known(repo), None, 1).rank == pytest.approx(gib * 2**30, rel=0.001)


def test_what_cannot_be_counted_is_said() -> None:
    with pytest.raises(UnknownError, match="vision part"):
        verifier_weights(known("google/gemma-4-31B-it"), None, 1)
    quantised = model_of("v", {**known("Qwen/Qwen3-8B").config, "quantization_config": {"quant_method": "fp8"}})
    with pytest.raises(UnknownError, match="quantised"):
        verifier_weights(quantised, None, 1)
    with pytest.raises(UnknownError, match="fewer"):
        verifier_weights(known("Qwen/Qwen3-8B"), None, 1, 1000, "an index")
