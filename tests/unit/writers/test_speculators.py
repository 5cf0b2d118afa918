"""Values that a Speculators file must hold for vLLM to run the drafter as it was trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import drafters
import pytest
from drafters import Size, Spec
from readings import trained, written

from spectool.drafter.model import Attention
from spectool.errors import RefusedError, UsageError
from spectool.writers.speculators import write_speculators

LAYER = "transformer_layer_config"


def tokens(config: Any) -> int:
    return int(config["speculators_config"]["proposal_methods"][0]["speculative_tokens"])


def test_dflash() -> None:
    size = Size(block=16, taps=(2, 10, 18), depth=36)
    config = written(drafters.zlab(size), drafters.verifier(size)).config
    assert config["speculators_model_type"] == "dflash"
    assert config["aux_hidden_state_layer_ids"] == [2, 10, 18]
    assert (config["block_size"], tokens(config), config["sample_from_anchor"]) == (16, 15, False)
    assert config["mask_token_id"] == 127
    assert config["speculators_config"]["verifier"] == {
        "architectures": ["Qwen3ForCausalLM"],
        "name_or_path": "org/verifier",
    }
    assert not {"model_type", "auto_map", "dflash_config", "target_layer_ids"} & set(config)
    assert not {"dflash_config", "block_size", "num_target_layers"} & set(config[LAYER])


def test_dspark_writes_the_keys_whose_defaults_differ() -> None:
    size = Size(block=7, confidence=False)
    config = written(drafters.deepspec(size), drafters.verifier(size)).config
    assert (config["sample_from_anchor"], tokens(config)) == (True, 7)
    assert (config["enable_confidence_head"], config["confidence_head_with_markov"]) == (False, False)
    assert (config["markov_rank"], config["markov_head_type"]) == (4, "vanilla")
    assert "is_causal" not in config[LAYER]


def test_peagle_of_llama_type_with_four_aux_layers_says_so_where_vllm_looks() -> None:
    four, three = Size(taps=(1, 2, 4, 6)), Size(taps=(1, 2, 4))
    layer = written(drafters.peagle(four), drafters.verifier(four), speculative_tokens=5).config[LAYER]
    assert layer["num_aux_hidden_states"] == 4
    layer = written(drafters.peagle(three), drafters.verifier(three), speculative_tokens=5).config[LAYER]
    assert "num_aux_hidden_states" not in layer
    qwen = Size(taps=(1, 2, 4, 6), qk_norm=True)
    layer = written(drafters.peagle(qwen), drafters.verifier(qwen), speculative_tokens=5).config[LAYER]
    assert (layer["model_type"], "num_aux_hidden_states" in layer) == ("qwen3", False)


def test_peagles_fc_norm_is_written_twice() -> None:
    size = Size(fc_norm=True)
    config = written(drafters.peagle(size), drafters.verifier(size), speculative_tokens=5).config
    assert (config["fc_norm"], config[LAYER]["fc_norm"]) == (True, True)


def test_mask_hidden_gets_three_dimensions() -> None:
    size = Size(taps=(1, 3, 5), hidden=32)
    plan = written(drafters.peagle(size), drafters.verifier(size), speculative_tokens=5)
    assert next(item.shape for item in plan.tensors if item.name == "mask_hidden") == (1, 1, 96)


SLIDING = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 64}


@pytest.mark.parametrize(
    ("extra", "top", "non_causal", "is_causal", "settled"),
    [
        ({}, {}, True, False, {}),
        ({}, {"is_causal": True}, False, True, {"causal": True}),
        (SLIDING, {}, False, True, {}),
        (SLIDING, {"is_causal": False}, True, False, {}),
    ],
)
def test_causality_of_dflash(
    extra: dict[str, Any], top: dict[str, Any], *, non_causal: bool, is_causal: bool, settled: dict[str, Any]
) -> None:
    size = Size(extra=extra)
    plan = written(drafters.zlab(size, **top), drafters.verifier(size))
    assert plan.config["sliding_window_non_causal"] is non_causal
    assert plan.config[LAYER]["is_causal"] is is_causal
    assert plan.config[LAYER]["sliding_window"] == (64 if extra else None)
    assert plan.settled == settled


MIXED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}


def test_mixed_layers_are_carried_as_dspark() -> None:
    size = Size(block=8, extra=MIXED, vocab=128, draft_vocab=128)
    plan = written(drafters.zlab(size), drafters.verifier(size))
    config = plan.config
    assert plan.carrier
    assert (config["speculators_model_type"], config["architectures"]) == ("dspark", ["DSparkDraftModel"])
    assert config["speculators_config"]["algorithm"] == "dspark"
    assert (config["sample_from_anchor"], config["block_size"], tokens(config)) == (False, 8, 7)
    assert (config["markov_head_type"], config["markov_rank"], config["enable_confidence_head"]) == (
        "vanilla",
        16,
        False,
    )
    assert config[LAYER]["layer_types"] == ["sliding_attention", "full_attention"]
    assert not {"is_causal", "dflash_config"} & set(config[LAYER])  # vLLM's default by layer type is the trained one
    heads = {item.name: (item.shape, item.dtype, item.origin) for item in plan.tensors if "markov" in item.name}
    assert heads == {
        "markov_head.markov_w1.weight": ((128, 16), "BF16", "zeros"),
        "markov_head.markov_w2.weight": ((128, 16), "BF16", "zeros"),
    }
    text = "\n".join(plan.notes)
    assert "causal and bidirectional layers side by side" in text
    assert "0.00819 MB" in text  # 2 x 128 x 16 x 2 bytes
    assert "runner V2" in text
    assert "no run on a GPU" in text


def test_dspark_holds_mixed_layers_itself() -> None:
    size = Size(extra=MIXED)
    plan = written(drafters.deepspec(size), drafters.verifier(size))
    assert not plan.carrier
    assert plan.config[LAYER]["layer_types"] == ["sliding_attention", "full_attention"]


def test_windows_alone_need_no_carrier() -> None:
    size = Size(extra=MIXED)
    plan = written(drafters.zlab(size, is_causal=False), drafters.verifier(size))
    assert plan.config["speculators_model_type"] == "dflash"


def test_bidirectional_sliding_beside_causal_full_layers_is_refused() -> None:
    size = Size(extra=MIXED)
    view, verifier = drafters.zlab(size), drafters.verifier(size)
    reading = trained(view, verifier)
    attention = (Attention(64, causal=False), Attention(None, causal=True))
    odd = replace(reading, drafter=replace(reading.drafter, attention=attention))
    with pytest.raises(RefusedError, match="bidirectional sliding layers beside causal full ones"):
        write_speculators(view, odd, verifier=verifier, verifier_name="org/verifier")


def test_a_logit_scale_is_kept_where_no_bias_would_be_scaled_with_it() -> None:
    for extra, kind in (({}, "dflash"), (MIXED, "dspark")):
        size = Size(extra=extra)
        plan = written(drafters.zlab(size, output_multiplier=0.25), drafters.verifier(size))
        assert (plan.config["speculators_model_type"], plan.config[LAYER]["logit_scale"]) == (kind, 0.25)
        assert plan.settled == {"logit_scale": 0.25}


GEMMA = Size(hidden=32, vocab=128)  # sqrt(32) = 5.657, as bf16 5.65625


def gemma_embedding(name: str, dtype: str = "BF16", rows: int = 128) -> dict[str, Spec]:
    return {name: Spec(dtype, (rows, 32)), "model.layers.0.mlp.up_proj.weight": Spec("BF16", (64, 32))}


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.language_model.embed_tokens.weight"])
def test_a_scaled_embedding_is_shipped(name: str) -> None:
    view, verifier = drafters.zlab(GEMMA), drafters.verifier(GEMMA, model_type="gemma4_text")
    plan = write_speculators(
        view,
        trained(view, verifier, embedding_scale=5.65625),
        verifier=verifier,
        verifier_name="org/verifier",
        verifier_tensors=gemma_embedding(name),
    )
    item = next(item for item in plan.tensors if item.name == "embed_tokens.weight")
    assert (item.source, item.origin, item.scale, item.shape) == (name, "verifier", 5.65625, (128, 32))
    assert plan.drafter.embedding_scale == 1.0


def test_a_scaled_embedding_needs_the_verifiers_weights() -> None:
    view, verifier = drafters.zlab(GEMMA), drafters.verifier(GEMMA, model_type="gemma4_text")
    reading = trained(view, verifier, embedding_scale=5.65625)
    with pytest.raises(UsageError, match=r"times 5\.65625"):
        write_speculators(view, reading, verifier=verifier, verifier_name="v")
    for tensors in (
        gemma_embedding("model.x.weight"),
        gemma_embedding("embed_tokens.weight", "F16"),
        gemma_embedding("embed_tokens.weight", rows=64),
    ):
        with pytest.raises(RefusedError) as error:
            write_speculators(view, reading, verifier=verifier, verifier_name="v", verifier_tensors=tensors)
        assert error.value.code == "VER004"


def test_partial_rotary_that_was_trained_is_written_and_recorded() -> None:
    size = Size(extra={"partial_rotary_factor": 0.5})
    plan = written(drafters.zlab(size), drafters.verifier(size), rope__partial=0.5)
    assert plan.config[LAYER]["rope_parameters"]["partial_rotary_factor"] == 0.5
    assert plan.settled == {"rope.partial": 0.5}
    plan = written(drafters.zlab(size), drafters.verifier(size))
    assert "partial_rotary_factor" not in plan.config[LAYER]["rope_parameters"]


def test_a_narrower_drafter_names_the_verifiers_width() -> None:
    size = Size(taps=(1, 3, 5), hidden=32)
    view = drafters.peagle(size, target_hidden_size=64)
    wide = dict(view.tensors) | {
        "fc.weight": drafters.Spec("BF16", (32, 192)),
        "mask_hidden": drafters.Spec("BF16", (1, 192)),
    }
    view = drafters.View("peagle", view.config, wide)
    config = written(view, drafters.verifier(size, hidden_size=64), speculative_tokens=5).config
    assert config["target_hidden_size"] == 64
    assert trained(view).drafter.dimensions.target_hidden_size == 64
