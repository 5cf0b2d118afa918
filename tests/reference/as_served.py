"""A Speculators folder as vLLM 0.33 runs it: the drafter that serves.

Written from vLLM's sources (transformers_utils/configs/speculators/algos.py, model_executor/models/{qwen3_dflash,
qwen3_dspark,llama_eagle3}.py, layers/rotary_embedding), and from nothing of spectool. Keys that vLLM overwrites or does
not look at are not looked at here either.
"""

from __future__ import annotations

from typing import Any

import torch
from folders import Folder, Verifier
from forward import Drafter, Layer, Rope, llama3, plain, yarn, yarn_amplitude


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration the model classes see: the decoder's, with the translation of the kind laid over it."""
    result = dict(config["transformer_layer_config"])
    kind = config["speculators_model_type"]
    result["draft_vocab_size"] = config.get("draft_vocab_size")
    if config.get("target_hidden_size") is not None:
        result["target_hidden_size"] = config["target_hidden_size"]
    if kind == "peagle":
        result["norm_before_residual"] = config.get("norm_before_residual", False)
        result["norm_before_fc"] = config.get("norm_before_fc", False)
        result["pard_token"] = config["mask_token_id"]
        result["taps"] = config.get("eagle_aux_hidden_state_layer_ids")
        return result
    result["taps"] = config["aux_hidden_state_layer_ids"]
    if kind == "dflash":
        result["dflash_config"] = {
            "mask_token_id": config["mask_token_id"],
            "sample_from_anchor": config.get("sample_from_anchor", False),
            "causal": not config.get("sliding_window_non_causal", True),
        }
        return result
    result["sample_from_anchor"] = config.get("sample_from_anchor", False)
    for key in ("mask_token_id", "markov_rank", "enable_confidence_head", "confidence_head_with_markov"):
        if config.get(key) is not None:
            result[key] = config[key]
    return result


def rope(keys: dict[str, Any] | None, head_dim: int, missing: float, *, neox: bool) -> Rope:
    """get_rope: obeys `partial_rotary_factor` and `rope_dim`; YaRNScalingRotaryEmbedding's choice of amplitude."""
    keys = keys or {"rope_theta": missing}
    theta = float(keys.get("rope_theta", missing))
    width = int(keys.get("rope_dim") or int(head_dim * keys.get("partial_rotary_factor", 1.0)))
    kind = keys.get("rope_type", "default")
    if kind == "default":
        return Rope(plain(theta, width), 1.0, not neox)
    factor, length = keys["factor"], keys["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = keys["low_freq_factor"], keys["high_freq_factor"]
        return Rope(llama3(theta, width, factor, low, high, length), 1.0, not neox)
    assert kind == "yarn"
    if keys.get("attention_factor") is not None:
        amplitude = float(keys["attention_factor"])
    elif keys.get("mscale") and keys.get("mscale_all_dim"):
        amplitude = yarn_amplitude(factor, keys["mscale"]) / yarn_amplitude(factor, keys["mscale_all_dim"])
    else:
        amplitude = yarn_amplitude(factor)
    return Rope(
        yarn(theta, width, factor, length, keys.get("beta_fast", 32), keys.get("beta_slow", 1)), amplitude, not neox
    )


def attention(config: dict[str, Any], index: int) -> tuple[int | None, bool]:
    """_resolve_layer_attention and _dflash_layer_causal."""
    own, kinds = config.get("dflash_config") or {}, config.get("layer_types")
    everywhere = own.get("use_swa", False)
    sliding = kinds is not None and "sliding_attention" in kinds
    slides = everywhere if kinds is None or (everywhere and not sliding) else kinds[index] == "sliding_attention"
    window = own.get("swa_window_size", config.get("sliding_window")) if slides else None
    assert window is not None or not slides
    if config.get("is_causal") is not None:
        return window, bool(config["is_causal"])
    if own.get("causal") is not None:
        return window, bool(own["causal"])
    return window, bool(kinds) and kinds[index] == "sliding_attention"


def common(folder: Folder, verifier: Verifier, config: dict[str, Any]) -> dict[str, Any]:
    """Sizes; embedding and head, shared where the drafter ships none, never scaled; offsets where ids are reduced."""
    tensors = folder.tensors
    size = config["draft_vocab_size"] or config["vocab_size"]
    head = tensors.get("lm_head.weight")
    assert head is None or len(head) == size, "a head of another size fails to load"
    targets = None
    if size != len(verifier.embedding):
        targets = torch.arange(size) + tensors.get("d2t", torch.zeros(size, dtype=torch.int64))
    else:
        assert "d2t" not in tensors, "a map of a full vocabulary fails to load"
    return {
        "taps": sorted(set(config["taps"])),
        "heads": config["num_attention_heads"],
        "kv_heads": config["num_key_value_heads"],
        "head_dim": config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"],
        "epsilon": config["rms_norm_eps"],
        "embedding": tensors.get("embed_tokens.weight", verifier.embedding.double()),
        "head": verifier.head.double() if head is None else head,
        "targets": targets,
        "norm": tensors["norm.weight"],
        "fc": tensors["fc.weight"],
        "logit_scale": config.get("logit_scale", 1.0),
    }


def biases(weights: dict[str, torch.Tensor], *, attention: bool, mlp: bool) -> dict[str, torch.Tensor]:
    """A bias without its flag is dropped in silence; with the flag it has to be there."""
    kept = {
        name: item
        for name, item in weights.items()
        if not name.endswith(".bias") or (attention if "self_attn" in name else mlp)
    }
    assert not attention or sum(name.endswith("_proj.bias") and "self_attn" in name for name in kept) == 4
    return kept


def block_drafter(folder: Folder, verifier: Verifier, config: dict[str, Any], tokens: int) -> Drafter:
    """DFlashQwen3ForCausalLM and Qwen3DSparkForCausalLM."""
    own, tensors = config.get("dflash_config") or {}, folder.tensors
    dspark = "markov_rank" in config
    anchor = bool(config.get("sample_from_anchor")) if dspark else False
    sinks = own.get("attention_sink_bias", config.get("add_swa_attention_sink_bias", False))
    stack = []
    for index in range(config["num_hidden_layers"]):
        weights = biases(folder.inside(f"layers.{index}."), attention=config.get("attention_bias", False), mlp=False)
        assert ("self_attn.attention_sink_bias" in weights) == bool(sinks), "sinks without the flag fail to load"
        stack.append(Layer(weights, *attention(config, index)))
    heads: dict[str, Any] = {}
    if dspark:
        heads["markov"] = tuple(tensors[f"markov_head.markov_w{part}.weight"] for part in (1, 2))
        assert heads["markov"][0].shape == (config["vocab_size"], config["markov_rank"])
        if config.get("enable_confidence_head") and "confidence_head.proj.weight" in tensors:
            weight, bias = (tensors[f"confidence_head.proj.{part}"] for part in ("weight", "bias"))
            heads["confidence"] = (weight, bias, bool(config.get("confidence_head_with_markov", False)))
    fields = common(folder, verifier, config)
    neox = config.get("is_neox_style", True)
    return Drafter(
        **fields,
        layers=stack,
        rope=rope(config.get("rope_parameters"), fields["head_dim"], 1_000_000.0, neox=neox),
        mask_token=own.get("mask_token_id", config.get("mask_token_id")),
        block=tokens if anchor else tokens + 1,
        skip=0 if anchor else 1,
        hidden_norm=tensors["hidden_norm.weight"],
        value_scale=own.get("attention_value_scale") or 1.0,
        **heads,
    )


def parallel_drafter(folder: Folder, verifier: Verifier, config: dict[str, Any], tokens: int) -> Drafter:
    """PeagleLlamaForCausalLM and PeagleQwen3ForCausalLM, parallel drafting on."""
    tensors, qwen = folder.tensors, config.get("model_type", "llama") == "qwen3"
    fields = common(folder, verifier, config)
    count = len(fields["taps"]) if qwen else config.get("num_aux_hidden_states", 3)
    width = (config.get("target_hidden_size") or config["hidden_size"]) * count
    assert fields["fc"].shape[1] == width
    kinds = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    stack = []
    for index, kind in enumerate(kinds):
        weights = biases(
            folder.inside(f"layers.{index}."),
            attention=config.get("attention_bias", False),
            mlp=not qwen and config.get("mlp_bias", False),
        )
        assert qwen == ("self_attn.q_norm.weight" in weights)
        window = config["sliding_window"] if kind == "sliding_attention" else None
        stack.append(Layer(weights, window, causal=True))
    norms = [tensors[f"fc_norm.{index}.weight"] for index in range(count)] if config.get("fc_norm") else []
    return Drafter(
        **fields,
        layers=stack,
        rope=rope(config.get("rope_parameters"), fields["head_dim"], 10_000.0, neox=True),
        mask_token=config.get("mask_token_id", config["pard_token"]),
        depth=tokens,
        mask_hidden=tensors["mask_hidden"],
        norm_before_residual=bool(config["norm_before_residual"]),
        input_norm=tensors["input_norm.weight"] if config["norm_before_fc"] else None,
        fc_norms=norms,
    )


def read(folder: Folder, verifier: Verifier) -> Drafter:
    """Read a Speculators folder served by itself: kind and K are the file's own."""
    assert "model_type" not in folder.config, "vLLM would not take it for a Speculators file"
    config = flat(folder.config)
    tokens = folder.config["speculators_config"]["proposal_methods"][0]["speculative_tokens"]
    parallel = folder.config["speculators_model_type"] == "peagle"
    return (parallel_drafter if parallel else block_drafter)(folder, verifier, config, tokens)
