"""Tell quantised weights, which spectool neither converts nor checks."""

from __future__ import annotations

import re

from spectool.dialects.view import View

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
