"""What vLLM's Llama and Qwen3 draft layers take from a flat configuration: sizes, rope, attention."""

from __future__ import annotations

import math
from typing import Any

from spectool.dialects.dimensions import MOST_LAYERS, MOST_SIZE
from spectool.dialects.rope import rope_keys, scaling_of
from spectool.drafter.model import Attention, Dimensions, Rope
from spectool.engine.facts import EngineFacts
from spectool.engine.reading.flat import Flat
from spectool.engine.reading.record import EngineRefusedError
from spectool.formats.lookup import is_int, is_number

SLIDING = "sliding_attention"
# What get_rope has a branch for; `openpangu` and `mllama4` by release, which no drafter was seen with.
_ROPE_TYPES = {
    *("default", "linear", "dynamic", "ntk", "yarn", "llama3", "longrope", "proportional", "mllama4", "openpangu"),
    *("deepseek_yarn", "deepseek_llama_scaling", "bailing_mrope", "su", "mrope"),
}
# The two of DeepSeek's own are built without a look at what is missing.
_DEEPSEEK_NEEDS = ("factor", "original_max_position_embeddings")


def size(flat: Flat, key: str) -> int:
    """Return a size the model class cannot be built without."""
    value = flat.get(key)
    if not is_int(value) or not 1 <= value <= (MOST_LAYERS if key == "num_hidden_layers" else MOST_SIZE):
        raise EngineRefusedError(
            "CFG003", f"{key} is {'missing' if value is None else repr(value)}: vLLM cannot build the layers"
        )
    return int(value)


def dimensions(flat: Flat, *, block: bool) -> Dimensions:
    """Return the sizes of the modules vLLM builds.

    Args:
        flat: the configuration.
        block: DFlash and DSpark, whose layers take two keys without a fallback: `num_key_value_heads` and
            `max_position_embeddings`.

    """
    hidden, heads = size(flat, "hidden_size"), size(flat, "num_attention_heads")
    vocabulary = size(flat, "vocab_size")
    stated = flat.get("head_dim")
    if stated is not None and not isinstance(stated, int | float):
        raise EngineRefusedError("CFG003", f"head_dim is {stated!r}: vLLM cannot build the layers")
    head_dim = stated or hidden // heads
    kv_heads = size(flat, "num_key_value_heads") if block else flat.get("num_key_value_heads") or heads
    positions = flat.get("max_position_embeddings")
    if not is_number(positions) and (block or positions is not None):
        stated = "missing" if positions is None else repr(positions)
        raise EngineRefusedError("CFG003", f"max_position_embeddings is {stated}: vLLM cannot build the layers")
    return Dimensions(
        hidden_size=hidden,
        target_hidden_size=flat.get("target_hidden_size") or hidden,
        intermediate_size=size(flat, "intermediate_size"),
        num_layers=size(flat, "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=int(kv_heads),
        head_dim=int(head_dim),
        vocab_size=vocabulary,
        draft_vocab_size=flat.get("draft_vocab_size") or vocabulary,
    )


def rope(
    flat: Flat, head_dim: int, fallback_theta: float, facts: EngineFacts, *, interleaved: bool | None = None
) -> Rope:
    """Return what `get_rope` builds. Unlike the trainers' rotary classes it obeys `partial_rotary_factor`.

    Source: vLLM 0.33 `model_executor/layers/rotary_embedding/__init__.py`. `interleaved` overrules the configuration.
    """
    keys = rope_keys(flat)
    if keys is None:
        raise EngineRefusedError("ROP001", "rope_parameters is nested per layer type (TypeError in vLLM's get_rope)")
    parameters = _parameters(flat)
    # As transformers hands it on: `rope_type`, null too, else `type`.
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if not isinstance(kind, str) or kind not in _ROPE_TYPES:
        raise EngineRefusedError("ROP001", f"Unknown RoPE scaling type {kind!r}")
    gone = [name for name in _DEEPSEEK_NEEDS if kind.startswith("deepseek_") and name not in keys]
    gone += ["mrope_section"] if kind == "mrope" and "mrope_section" not in keys else []
    if gone:
        raise EngineRefusedError("ROP001", f"rope_type {kind} without {' and '.join(gone)}")
    if parameters.get("rope_theta", 0) is None:
        raise EngineRefusedError("ROP001", "rope_theta is null, which no default replaces (TypeError in vLLM)")
    theta = keys.get("rope_theta", flat.get("default_theta", fallback_theta))
    partial = keys.get("partial_rotary_factor", 1.0)
    # true counts as 1: Python's own arithmetic.
    if not isinstance(theta, int | float) or not is_number(partial) or not 0 < partial <= 1:
        raise EngineRefusedError(
            "ROP001", f"rope_theta {theta!r} with partial_rotary_factor {partial!r} cannot be built"
        )
    if interleaved is None:
        interleaved = "config_neox_style" in facts.features and not flat.get("is_neox_style", True)
    width = keys.get("rope_dim") or int(head_dim * partial)
    return Rope(float(theta), int(width), scaling_of(_amplitude(keys, facts)), interleaved=interleaved)


def _parameters(flat: Flat) -> dict[str, Any]:
    """Return the object of rope keys in either generation's place, as it stands; empty where there is none."""
    found = (flat.get(name) for name in ("rope_parameters", "rope_scaling"))
    return next((value for value in found if isinstance(value, dict)), {})


def _amplitude(keys: dict[str, Any], facts: EngineFacts) -> dict[str, Any]:
    """Put the amplitude that vLLM gives yarn's tables into `attention_factor`, where keys speak of one.

    Since 0.30 as transformers has it: attention_factor, else the ratio of mscale to mscale_all_dim, else
    0.1 ln(factor) + 1; before, always the last. Source: vLLM `rotary_embedding/yarn_scaling_rope.py`.
    """
    stated, scale, of_all = (keys.get(name) for name in ("attention_factor", "mscale", "mscale_all_dim"))
    factor = keys.get("factor")
    both = is_number(scale) and is_number(of_all) and bool(scale) and bool(of_all)
    if keys.get("rope_type") != "yarn" or not is_number(factor) or (stated is None and not both):
        return keys
    amplitude = yarn_amplitude(factor)
    if "yarn_attention_factor" in facts.features:
        if is_number(stated):
            amplitude = float(stated)
        elif both:
            # As far as a question about it offers the value: nine digits (spectool.dialects.rope).
            amplitude = yarn_amplitude(factor, float(scale or 0)) / yarn_amplitude(factor, float(of_all or 0))
    if stated is None:
        amplitude = float(f"{amplitude:.9g}")
    rest = {name: value for name, value in keys.items() if name not in {"mscale", "mscale_all_dim"}}
    return {**rest, "attention_factor": amplitude}


def yarn_amplitude(factor: float, scale: float = 1.0) -> float:
    """Return 0.1 scale ln(factor) + 1, or 1 where nothing is stretched (vLLM's and transformers' yarn_get_mscale)."""
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def epsilon(flat: Flat) -> float:
    """Return the RMS norm epsilon."""
    value = flat.get("rms_norm_eps")
    if not is_number(value):
        raise EngineRefusedError("CFG003", "rms_norm_eps is missing: vLLM cannot build the norms")
    return float(value)


def activation(flat: Flat) -> str:
    """Return the MLP's activation, which is silu or no model (vLLM 0.33 `models/llama.py`, `models/qwen2.py`)."""
    value = flat.get("hidden_act")
    if value != "silu":
        stated = "missing" if value is None else repr(value)
        raise EngineRefusedError("CFG003", f"hidden_act is {stated}, vLLM takes silu only")
    return "silu"


def dflash_attention(flat: Flat, layers: int, facts: EngineFacts, *, dspark: bool) -> tuple[Attention, ...]:
    """Return window and causality per layer of a DFlash or DSpark drafter.

    Source: vLLM 0.33 `model_executor/models/qwen3_dflash.py`, `_resolve_layer_attention` and `_dflash_layer_causal`:
    `is_causal`, then `dflash_config.causal`, then sliding layers causal and full ones not.
    """
    own = flat.get("dflash_config") or {}
    kinds = flat.get("layer_types")
    if "draft_windows" not in facts.features:
        return (Attention(None, bool(own.get("causal", False))),) * layers
    if kinds is not None and len(kinds) < layers:
        raise EngineRefusedError(
            "ATT002", f"layer_types has {len(kinds)} entries for {layers} layers (IndexError in vLLM)"
        )
    forced = bool(own.get("use_swa", False))
    any_sliding = kinds is not None and SLIDING in kinds
    attention = []
    for layer in range(layers):
        sliding = forced if kinds is None or (forced and not any_sliding) else kinds[layer] == SLIDING
        window = own.get("swa_window_size", flat.get("sliding_window")) if sliding else None
        if sliding and window is None:
            raise EngineRefusedError("ATT002", "sliding attention without a window size: vLLM raises")
        if "layer_causality" not in facts.features:
            attention.append(Attention(window, bool(own.get("causal", False)) and not dspark))
            continue
        causal = flat.get("is_causal") if "is_causal" in facts.features else None
        if causal is None:
            causal = own.get("causal")
        if causal is None:
            causal = kinds is not None and kinds[layer] == SLIDING
        attention.append(Attention(window, bool(causal)))
    return tuple(attention)


def llama_attention(flat: Flat, layers: int) -> tuple[Attention, ...]:
    """Return window per layer of a P-EAGLE drafter, which always attends causally."""
    kinds = flat.get("layer_types") or []
    if kinds and len(kinds) < layers:
        raise EngineRefusedError("ATT002", f"layer_types has {len(kinds)} entries for {layers} layers")
    windows = [flat.get("sliding_window") if kinds and kinds[layer] == SLIDING else None for layer in range(layers)]
    return tuple(Attention(window, causal=True) for window in windows)
