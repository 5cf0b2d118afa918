"""Tell quantised weights, which spectool neither converts nor checks."""

from __future__ import annotations

import re

from spectool.dialects.view import View
from spectool.formats.dialect import DialectFile

# Beside a weight: scales and packed integers of compressed-tensors, ModelOpt, AWQ, GPTQ and MLX.
_SCALES = re.compile(r"\.(weight_scale(_2|_inv)?|weight_packed|weight_shape|input_scale|qweight|qzeros|scales|biases)$")
_KEYS = ("quantization_config", "quantization", "compression_config")
_NAMES = ("quant_method", "quant_algo", "format", "mode")


def quantised(view: View) -> str | None:
    """Return by what the weights are quantised, as config, side file or names say; None for plain ones."""
    for place in (view.config, view.config.get("transformer_layer_config")):
        for key in _KEYS:
            stated = place.get(key) if isinstance(place, dict) else None
            if isinstance(stated, dict):
                named = (str(stated[name]) for name in _NAMES if name in stated)
                return next(named, "MLX" if key == "quantization" else key)
    if "hf_quant_config.json" in view.side_files:
        return "hf_quant_config.json"
    found = next((name for name in view.tensors if _SCALES.search(name)), None)
    if found is None:
        return None
    return "MLX" if found.endswith((".scales", ".biases")) else found.rpartition(".")[2]


def served_by(kind: str, dialect: DialectFile) -> str:
    """Return what serves a quantised drafter as it stands, or what to convert instead.

    vLLM takes a drafter's own quantisation from its folder (`get_draft_quant_config`); DFlash and DSpark project the
    verifier's states with quantised weights from 0.31 on (rule QNT003).
    """
    original = "Convert the bf16 original"
    if kind == "MLX":
        return f"MLX runs it, vLLM does not. {original} for vLLM."
    if dialect.layout == "foreign":
        return f"vLLM does not load this layout. {original} and quantise the result."
    since = "" if dialect.method == "peagle" else " (vLLM >= 0.31)"
    if dialect.layout == "speculators":
        return f"vLLM serves it as it is: vllm serve FOLDER{since}. {original} and quantise the result otherwise."
    eagle = '"eagle3", "parallel_drafting": true' if dialect.method == "peagle" else f'"{dialect.method}"'
    config = f'{{"method": {eagle}, "model": "FOLDER", "num_speculative_tokens": K}}'
    return f"vLLM serves it as it is: vllm serve VERIFIER --speculative-config '{config}'{since}."
