"""The flat configuration vLLM ends up with, from a Speculators or a native folder.

Sources (vLLM 0.33; what differs before is a feature of the release, `data/vllm-features.toml`):
`transformers_utils/configs/speculators/{base,algos}.py`, `transformers_utils/config.py` (`HFConfigParser`), and
transformers' `Qwen3Config` and `LlamaConfig`, through whose defaults a native folder passes. Speculators folders get no
defaults: missing keys stay missing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from spectool.engine.facts import EngineFacts
from spectool.engine.reading.record import EngineRefusedError
from spectool.formats.lookup import is_int

Flat = dict[str, Any]
METHOD_OF_TYPE = {"peagle": "peagle", "dflash": "dflash", "dspark": "dspark"}


def is_speculators(config: Mapping[str, Any]) -> bool:
    """Whether a folder says it is in Speculators format, whatever the engine then makes of it."""
    return "speculators_model_type" in config or "speculators_config" in config


def flat_config(config: Mapping[str, Any], facts: EngineFacts) -> Flat:
    """Return the attributes of the config object vLLM builds for the draft model.

    Raises:
        EngineRefusedError: vLLM raises while it reads the configuration.

    """
    # HFConfigParser looks at model_type first. With one, a file that also holds a flat copy is read as that copy alone;
    # one that does not is refused below, with the reason.
    flat_copy = "hidden_size" in config and config.get("model_type", "speculators") != "speculators"
    return _from_native(config) if flat_copy or not is_speculators(config) else _from_speculators(config, facts)


def _from_speculators(config: Mapping[str, Any], facts: EngineFacts) -> Flat:
    if config.get("model_type", "speculators") != "speculators":
        raise EngineRefusedError(
            "CFG002",
            f"a top-level model_type ({config['model_type']}) makes vLLM read the file as a plain "
            f"{config['model_type']} configuration: every Speculators key is ignored",
        )
    kind = config.get("speculators_model_type")
    if kind not in METHOD_OF_TYPE:
        raise EngineRefusedError("CFG003", f"speculators_model_type is {kind!r}, which vLLM does not know")
    if f"speculators_{kind}" not in facts.features:
        raise EngineRefusedError("ENG001", f"it does not know Speculators `{kind}` files yet")
    layer = config.get("transformer_layer_config")
    if not isinstance(layer, dict):
        raise EngineRefusedError("CFG003", "transformer_layer_config is missing or no object")
    flat = copy.deepcopy(layer)
    {"peagle": _peagle, "dflash": _dflash, "dspark": _dspark}[kind](config, flat, facts)
    return flat


def _required(config: Mapping[str, Any], key: str, code: str) -> Any:
    if key not in config:
        raise EngineRefusedError(code, f"{key} is missing (KeyError in vLLM)")
    return config[key]


def _aux_ids(config: Mapping[str, Any]) -> list[int]:
    ids = _required(config, "aux_hidden_state_layer_ids", "AUX002")
    if not isinstance(ids, list) or not all(is_int(item) for item in ids):
        raise EngineRefusedError("AUX002", f"aux_hidden_state_layer_ids is {ids!r}, no list of layer ids")
    return ids


def _peagle(config: Mapping[str, Any], flat: Flat, facts: EngineFacts) -> None:
    flat["draft_vocab_size"] = config.get("draft_vocab_size")
    if config.get("target_hidden_size") is not None:
        flat["target_hidden_size"] = config["target_hidden_size"]
    flat["norm_before_residual"] = config.get("norm_before_residual", False)
    flat["norm_before_fc"] = config.get("norm_before_fc", False)
    kind = flat.get("model_type", "llama")
    classes = {"qwen3": "PeagleQwen3ForCausalLM", "llama": "PeagleLlamaForCausalLM"}
    if "peagle_qwen3" not in facts.features:
        classes["qwen3"] = classes["llama"]  # whatever the file says
    if kind not in classes:
        raise EngineRefusedError(
            "CFG003", f"transformer_layer_config.model_type is {kind!r}, vLLM takes llama or qwen3"
        )
    flat["architectures"] = [classes[kind]]
    flat["pard_token"] = _required(config, "mask_token_id", "MSK001")
    if config.get("eagle_aux_hidden_state_layer_ids"):
        flat["eagle_aux_hidden_state_layer_ids"] = config["eagle_aux_hidden_state_layer_ids"]


def _dflash(config: Mapping[str, Any], flat: Flat, facts: EngineFacts) -> None:
    flat["architectures"] = ["DFlashDraftModel"]
    flat["draft_vocab_size"] = config.get("draft_vocab_size")
    if config.get("target_hidden_size") is not None:
        flat["target_hidden_size"] = config["target_hidden_size"]
    ids = _aux_ids(config)
    flat["eagle_aux_hidden_state_layer_ids"] = ids
    flat["dflash_config"] = {
        "mask_token_id": _required(config, "mask_token_id", "MSK001"),
        "target_layer_ids": [item - 1 for item in ids],
        "sample_from_anchor": config.get("sample_from_anchor", False),
    }
    if "sliding_flag" in facts.features:
        # One flag for all layers, full attention included: vLLM issue 56692.
        flat["dflash_config"]["causal"] = not config.get("sliding_window_non_causal", True)


_DSPARK_KEYS = (
    "draft_vocab_size",
    "target_hidden_size",
    "mask_token_id",
    "markov_rank",
    "markov_head_type",
    "block_size",
    "enable_confidence_head",
    "confidence_head_with_markov",
    "use_aux_hidden_state",
)


def _dspark(config: Mapping[str, Any], flat: Flat, facts: EngineFacts) -> None:
    supported = {"Qwen3DSparkModel", "Qwen3OmniDSparkModel"}
    stated = config.get("architectures") or []
    flat["architectures"] = [name for name in stated if name in supported] or ["Qwen3DSparkModel"]
    # The Speculators translator's default; the runtime's own default for other layouts is true.
    honoured = "dspark_anchor_flag" in facts.features
    flat["sample_from_anchor"] = config.get("sample_from_anchor", False) if honoured else False
    ids = _aux_ids(config)
    flat["eagle_aux_hidden_state_layer_ids"] = ids
    flat["target_layer_ids"] = [item - 1 for item in ids]
    flat |= {key: config[key] for key in _DSPARK_KEYS if config.get(key) is not None}


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


def _from_native(config: Mapping[str, Any]) -> Flat:
    kind = config.get("model_type")
    defaults = {"qwen3": _QWEN3, "llama": _LLAMA}.get(str(kind))
    if defaults is None:
        raise EngineRefusedError(
            "CFG004", f"model_type is {kind!r}; spectool knows vLLM's reading of qwen3 and llama drafters"
        )
    flat = {**defaults, **copy.deepcopy(dict(config))}
    if kind == "qwen3":
        flat["sliding_window"] = flat["sliding_window"] if flat["use_sliding_window"] else None
        if flat.get("layer_types") is None and is_int(flat["num_hidden_layers"]):
            first = flat["max_window_layers"] if flat["sliding_window"] is not None else flat["num_hidden_layers"]
            flat["layer_types"] = [
                "sliding_attention" if layer >= first else "full_attention"
                for layer in range(flat["num_hidden_layers"])
            ]
    flat.setdefault("default_theta", _NATIVE_THETA)
    return flat
