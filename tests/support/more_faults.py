# ruff: noqa: E501 - tables: one fault, one line
"""More ways to trip rules that `faults` and `boundaries` show once or twice: three each, for `make conformance`."""

from __future__ import annotations

from typing import Any

from faults import LAYER
from mutations import MIXED, Change, Config, Tensors, both, put, with_int64, with_zeros, without

IDS = "dflash_config.target_layer_ids"


def another_class(name: str, *, biased: bool = False, **keys: Any) -> Change:
    """A verifier of a class that hands out no hidden states, with the keys it wants; none of them has q/k norms.

    `biased`: its norms have biases, which vLLM wants in the file.
    """

    def change(config: Config, tensors: Tensors) -> None:
        config.update({"architectures": [name], **keys})
        for tensor in [tensor for tensor in tensors if "_norm." in tensor and "self_attn" in tensor]:
            del tensors[tensor]
        for tensor in [tensor for tensor in tensors if biased and tensor.endswith("norm.weight")]:
            with_zeros(tensor.replace(".weight", ".bias"), *tensors[tensor][1])(config, tensors)

    return change


# (code, layout, method, what changes, change, what is changed: drafter or verifier)
MORE_FAULTS: list[tuple[str, str, str, str, Change, str]] = [
    ("CFG001", "native", "dspark", "no target_layer_ids", put("target_layer_ids", ...), "drafter"),
    ("AUX002", "native", "dflash", "ids in a string", put(IDS, "0,2,4"), "drafter"),
    ("AUX002", "converted", "dflash", "no ids", put("aux_hidden_state_layer_ids", ...), "drafter"),
    ("ATT002", "native", "dflash", "three layer_types", put("layer_types", ["full_attention"] * 3), "drafter"),
    ("clean", "native", "dflash", "sliding beside full layers", MIXED, "drafter"),
    ("ROP002", "native", "dflash", "sliding beside full layers, half rotated", both(MIXED, put("rope_parameters.partial_rotary_factor", 0.5)), "drafter"),
    ("CFG003", "native", "dflash", "a flag of 0", put("attention_bias", 0), "drafter"),
    ("CFG003", "native", "dspark", "no head size", put("head_dim", None), "drafter"),
    ("CFG003", "native", "peagle", "an end token in quotes", put("eos_token_id", "2"), "drafter"),
    ("CFG003", "native", "peagle", "an epsilon of 0", put("rms_norm_eps", 0), "drafter"),
    ("ROP001", "native", "peagle", "yarn without a factor", put("rope_parameters.rope_type", "yarn"), "drafter"),
    ("LAY004", "native", "dflash", "no width of the MLP", put("intermediate_size", ...), "drafter"),
    ("LAY001", "native", "peagle", "one layer of two", put("num_hidden_layers", 1), "drafter"),
    ("ROP001", "native", "dflash", "a rope type of null", put("rope_parameters.rope_type", None), "drafter"),
    ("ROP001", "converted", "peagle", "rope by sections", put(f"{LAYER}.rope_parameters.mrope_section", [4, 6, 6]), "drafter"),
    ("ROP001", "converted", "dflash", "longrope without factors", put(f"{LAYER}.rope_parameters.rope_type", "longrope"), "drafter"),
    ("CFG003", "converted", "peagle", "positions as an object", put(f"{LAYER}.max_position_embeddings", {}), "drafter"),
    ("AUX002", "converted", "dflash", "no aux state", put(f"{LAYER}.use_aux_hidden_state", False), "drafter"),
    ("VOC004", "native", "peagle", "a map beyond the vocabulary", both(put("draft_vocab_size", 100), with_zeros("lm_head.weight", 100, 128), with_int64("d2t", [413] * 100)), "drafter"),
    ("CFG004", "native", "dflash", "a model_type in capitals", put("model_type", "QWEN3"), "drafter"),
    ("CFG004", "native", "peagle", "Speculators by name alone", put("model_type", "speculators"), "drafter"),
    ("CFG003", "converted", "dflash", "no speculators_config", put("speculators_config", ...), "drafter"),
    ("clean", "converted", "peagle", "a top-level model_type of null", put("model_type", None), "drafter"),
    ("VER001", "native", "peagle", "no architecture", put("architectures", ...), "verifier"),
    ("VER008", "native", "dflash", "windows by layers", both(put("layer_types", ["sliding_attention", "full_attention"] * 3), put("sliding_window", 16), put("use_sliding_window", True)), "verifier"),
    ("VER009", "native", "dflash", "an extra tensor", with_zeros("extra.weight", 2), "verifier"),
    ("VER009", "native", "peagle", "no head", without("lm_head.weight"), "verifier"),
    ("VER009", "converted", "dflash", "a norm of another size", with_zeros("model.norm.weight", 64), "verifier"),
    ("VER008", "native", "dflash", "dropout of null", put("attention_dropout", None), "verifier"),
    ("VER008", "converted", "peagle", "no model_type", put("model_type", ...), "verifier"),
    ("VER008", "converted", "dspark", "a layer without its kind", put("layer_types", ["full_attention"] * 5), "verifier"),
    ("CFG001", "native", "dflash", "no word of DFlash", both(put("dflash_config", ...), put("architectures", ["X"])), "drafter"),
    ("CFG001", "converted", "dspark", "an unknown kind", put("speculators_model_type", "dspork"), "drafter"),
    ("EMB001", "native", "dflash", "half the embedding", put("dflash_config.input_embedding_scale", 0.5), "drafter"),
    ("EMB001", "native", "dflash", "an output multiplier", put("dflash_config.output_multiplier", 2.0), "drafter"),
    ("HED005", "converted", "dspark", "without the Markov embedding", put("confidence_head_with_markov", False), "drafter"),
    ("HED005", "native", "dspark", "without the Markov embedding", put("confidence_head_with_markov", False), "drafter"),
    ("MSK004", "converted", "peagle", "row 0 for the mask", put(f"{LAYER}.mask_token_id", 0), "drafter"),
    ("MSK004", "converted", "peagle", "a row beside it", put(f"{LAYER}.mask_token_id", 509), "drafter"),
    ("TEN004", "native", "peagle", "the second norm twice", with_zeros("layers.0.hidden_norm.weight", 128), "drafter"),
    ("TEN004", "native", "peagle", "q_proj twice", with_zeros("layers.0.self_attn.q_proj.weight", 128, 256), "drafter"),
    ("VER001", "native", "dflash", "Orion", another_class("OrionForCausalLM", biased=True), "verifier"),
    ("VER001", "native", "dflash", "StableLM", another_class("StableLmForCausalLM", biased=True, layer_norm_eps=1e-6, norm_eps=1e-6, use_qkv_bias=False), "verifier"),
    ("VER001", "native", "dspark", "Solar", another_class("SolarForCausalLM", bskcn_1=[2], bskcn_2=[3], bskcn_3=[4], bskcn_4=[5], bskcn_tv=[0.9, 0.8]), "verifier"),
    ("VER002", "native", "dflash", "trained on 4 layers", put("num_target_layers", 4), "drafter"),
    ("VER002", "native", "dflash", "trained on 7 layers", put("num_target_layers", 7), "drafter"),
    ("VER002", "native", "dspark", "trained on 36 layers", put("num_target_layers", 36), "drafter"),
    ("VER004", "native", "dflash", "no head to borrow", without("lm_head.weight"), "verifier"),
    ("VER004", "native", "dflash", "no embedding to borrow", without("model.embed_tokens.weight"), "verifier"),
    ("VER004", "native", "dflash", "neither", without("lm_head.weight", "model.embed_tokens.weight"), "verifier"),
    ("VOC001", "native", "dflash", "a larger vocabulary", put("vocab_size", 513), "drafter"),
    ("VOC003", "native", "peagle", "ones for a full vocabulary", with_int64("d2t", [1] * 512), "drafter"),
    ("VOC003", "converted", "peagle", "a map of a full vocabulary", with_int64("d2t", [0] * 512), "drafter"),
]  # fmt: skip
