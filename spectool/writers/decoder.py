"""`transformer_layer_config` of a Speculators file: the decoder's sizes, rope and windows.

vLLM fills in no defaults for it (`transformers_utils/configs/speculators/base.py`), so every key is written.
"""

from __future__ import annotations

from typing import Any

from spectool.dialects.view import View
from spectool.drafter.model import Drafter
from spectool.errors import RefusedError
from spectool.formats.verifier import VerifierView


def transformer_layer(
    drafter: Drafter, verifier: VerifierView | None, view: View
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the decoder's configuration, and what of it Speculators' own trainer would not read (keys of `--set`)."""
    size, window = drafter.dimensions, next((item.window for item in drafter.attention if item.window), None)
    positions = drafter.max_position_embeddings or (verifier.max_position_embeddings if verifier else None)
    if positions is None:
        raise RefusedError(f"{view.name} states no max_position_embeddings, and no verifier does", code="CFG003")
    rope, settled = _rope(drafter)
    layer = {
        "attention_bias": drafter.attention_bias,
        "head_dim": size.head_dim,
        "hidden_act": drafter.activation,
        "hidden_size": size.hidden_size,
        "intermediate_size": size.intermediate_size,
        "layer_types": ["sliding_attention" if item.window else "full_attention" for item in drafter.attention],
        "max_position_embeddings": positions,
        "model_type": "qwen3" if drafter.qk_norm else "llama",
        "num_attention_heads": size.num_heads,
        "num_hidden_layers": size.num_layers,
        "num_key_value_heads": size.num_kv_heads,
        "rms_norm_eps": drafter.rms_norm_eps,
        "rope_parameters": rope,
        "sliding_window": window,
        "tie_word_embeddings": False,
        "use_sliding_window": window is not None,
        "vocab_size": size.vocab_size,
    }
    if not drafter.qk_norm:
        layer["mlp_bias"] = drafter.mlp_bias
    if drafter.rope is not None and drafter.rope.interleaved:
        layer["is_neox_style"] = False
    return layer, settled


def _as_json(key: str, value: object) -> object:
    if key == "original_max_position_embeddings" and isinstance(value, float) and value.is_integer():
        return int(value)  # a number of positions; transformers refuses 4096.0
    return list(value) if isinstance(value, tuple) else value


def _rope(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    assert drafter.rope is not None  # noqa: S101 - a gap in it was refused before writing
    scaling = {key: _as_json(key, value) for key, value in drafter.rope.scaling}
    rope: dict[str, Any] = {"rope_type": "default", **scaling, "rope_theta": drafter.rope.theta}
    settled: dict[str, Any] = {}
    if drafter.rope.rotary_dim != drafter.dimensions.head_dim:
        # vLLM obeys the key; Speculators' own rotary embedding would not, so the record says it was trained so.
        rope["partial_rotary_factor"] = drafter.rope.rotary_dim / drafter.dimensions.head_dim
        settled["rope.partial"] = rope["partial_rotary_factor"]
    return dict(sorted(rope.items())), settled
