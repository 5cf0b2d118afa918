"""A native folder passes through the configuration class of its model_type, whose defaults fill what is left out.

Sources: transformers 5.19 `Qwen3Config`, `LlamaConfig`, `GptOssConfig`, `MuseGlimmerAssistantConfig`; what vLLM 0.32
made of folders under each name.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from spectool.dialects.dimensions import MOST_LAYERS
from spectool.engine.facts import EngineFacts
from spectool.engine.reading.record import EngineRefusedError, EngineUnknownError
from spectool.engine.reading.strict import class_faults, known_type
from spectool.formats.lookup import is_int

Flat = dict[str, Any]
# transformers 5.19 class defaults that change what a drafter computes.
_QWEN3 = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
_LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "mlp_bias": False,
}
# Rope base of a native folder that states none (`PreTrainedConfig.default_theta`); vLLM's own 1000000 comes too late.
_NATIVE_THETA = 10000.0


_GPT_OSS = {
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "attention_bias": True,
    "sliding_window": 128,
}
_GPT_OSS_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 150000.0,
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "qwen3": _QWEN3,
    "llama": _LLAMA,
    "gpt_oss": _GPT_OSS,
    # vLLM's own class from 0.28 to 0.32, transformers' since: Qwen3Config with a window that counts.
    "muse_glimmer_assistant": {**_QWEN3, "vocab_size": 202048, "use_sliding_window": True},
}
# Names that producers write and no class goes by, in transformers 5.19 or in vLLM; `speculators` needs the keys
# that a native folder has not.
_NOBODYS = {"dflash", "llama_peagle", "speculators"}
# Seen in vLLM 0.32: config/speculative.py, hf_config_override takes such a draft for the verifier's own MTP layers.
_TAKEN_FOR_MTP = {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"}


def from_native(config: Mapping[str, Any], facts: EngineFacts) -> Flat:
    """Return a native folder's configuration with the defaults of its class.

    Raises:
        EngineRefusedError: no class goes by its model_type.
        EngineUnknownError: there is one, and spectool does not know its defaults.

    """
    kind = str(config.get("model_type"))
    if config.get("model_type") is None or kind in _NOBODYS:
        raise EngineRefusedError("CFG004", f"model_type is {config.get('model_type')!r}, which no class goes by")
    if kind in _TAKEN_FOR_MTP:
        raise EngineRefusedError("CFG004", f"model_type {kind} is taken for the verifier's own MTP layers")
    if kind == "muse_glimmer_assistant" and kind not in facts.draft_models:
        raise EngineRefusedError("CFG004", f"it has no class for model_type {kind} yet")
    if not known_type(kind) and "auto_map" not in config:
        raise EngineRefusedError("CFG004", f"model_type is {config.get('model_type')!r}, which no class goes by")
    if kind not in _DEFAULTS:
        raise EngineUnknownError(f"what a {kind} configuration takes for keys the drafter leaves out")
    for fault in class_faults(config, facts):
        raise EngineRefusedError(fault.code, fault.message)
    flat: Flat = {**_DEFAULTS[kind], **copy.deepcopy(dict(config))}
    if kind in ("qwen3", "muse_glimmer_assistant"):
        _qwen3_windows(flat)
    elif kind == "gpt_oss":
        if not any(isinstance(config.get(key), dict) for key in ("rope_parameters", "rope_scaling")):
            flat["rope_parameters"] = dict(_GPT_OSS_ROPE)
        flat["layer_types"] = flat.get("layer_types") or _alternating(flat["num_hidden_layers"])
    if kind == "muse_glimmer_assistant":
        flat["dflash_config"] = {"causal": False, **(flat.get("dflash_config") or {})}
    flat.setdefault("default_theta", _NATIVE_THETA)
    return flat


def _alternating(layers: Any) -> list[str] | None:
    if not is_int(layers) or layers > MOST_LAYERS:
        return None
    return ["full_attention" if layer % 2 else "sliding_attention" for layer in range(layers)]


def _qwen3_windows(flat: Flat) -> None:
    flat["sliding_window"] = flat["sliding_window"] if flat["use_sliding_window"] else None
    layers = flat["num_hidden_layers"]
    if flat.get("layer_types") is None and is_int(layers) and layers <= MOST_LAYERS:
        first = flat["max_window_layers"] if flat["sliding_window"] is not None else layers
        flat["layer_types"] = ["sliding_attention" if layer >= first else "full_attention" for layer in range(layers)]
