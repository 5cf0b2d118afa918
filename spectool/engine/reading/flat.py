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
from spectool.engine.reading.native import from_native
from spectool.engine.reading.record import EngineRefusedError
from spectool.engine.reading.strict import base_faults
from spectool.formats.lookup import is_int

Flat = dict[str, Any]
# The top-level model_types with which vLLM looks for Speculators keys; null counts as absent.
_TRANSLATED = (None, "speculators")
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
    flat_copy = "hidden_size" in config and config.get("model_type") not in _TRANSLATED
    return from_native(config, facts) if flat_copy or not is_speculators(config) else _from_speculators(config, facts)


def _from_speculators(config: Mapping[str, Any], facts: EngineFacts) -> Flat:
    if config.get("model_type") not in _TRANSLATED:
        raise EngineRefusedError(
            "CFG002",
            f"a top-level model_type ({config['model_type']}) makes vLLM read the file as a plain "
            f"{config['model_type']} configuration: every Speculators key is ignored",
        )
    if config.get("model_type") is None and config.get("speculators_config") is None:
        raise EngineRefusedError(
            "CFG003", "speculators_config is missing, by which vLLM knows the format: 'Unrecognized model'"
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
    for fault in base_faults(flat, facts):
        raise EngineRefusedError(fault.code, fault.message)
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
