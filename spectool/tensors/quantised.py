"""Tell quantised weights, and which of them a conversion can carry as they are."""

from __future__ import annotations

import re

from spectool.dialects.view import View
from spectool.formats.dialect import DialectFile

# Beside a weight: scales and packed integers of compressed-tensors, ModelOpt, AWQ, GPTQ and MLX.
_SCALES = re.compile(r"\.(weight_scale(_2|_inv)?|weight_packed|weight_shape|input_scale|qweight|qzeros|scales|biases)$")
_KEYS = ("quantization_config", "quantization", "compression_config")
_NAMES = ("quant_method", "quant_algo", "format", "mode")
# What stands beside a quantised weight, and names a packed weight has in place of `weight`.
_BESIDE = re.compile(
    r"\.(weight_scale(_2|_inv)?|weight_(global_scale|zero_point|shape|g_idx)|(input|output)_(global_)?scale|[kvq]_scale"
    r"|input_zero_point|qzeros|scales|biases|g_idx)$"
)
_PACKED = re.compile(r"\.(weight_packed|qweight)$")
_PLAIN = {"BF16", "F16", "F32", "F64"}
# Linear layers of the decoder: the same modules, by the same names, in the native and the converted folder.
_DECODER = re.compile(r"layers\.\d+\.(self_attn|mlp)\.\w+_proj")
# vLLM 0.33: these take all they need from the settings. AWQ and GPTQ look at the folder's tensors as well
# (`maybe_update_config`), mxfp4 at the model_type (`override_quantization_method`).
SCALED = {"compressed-tensors", "fp8", "modelopt", "modelopt_fp4", "modelopt_mixed"}


def stem(name: str) -> str:
    """Return a tensor's module: its name without what quantisation makes of `weight`."""
    return _PACKED.sub("", _BESIDE.sub("", name)).removesuffix(".weight")


def companion(name: str) -> bool:
    """Whether a tensor belongs to a quantised weight: a scale, a zero point, or the packed weight itself."""
    return bool(_BESIDE.search(name) or _PACKED.search(name))


def quantised_modules(view: View) -> set[str]:
    """Return the modules whose weights are quantised on disk, as the file names them."""
    return {
        stem(name)
        for name, item in view.tensors.items()
        if companion(name) or (item.dtype not in _PLAIN and name.endswith(".weight"))
    }


def with_weights(view: View) -> set[str]:
    """Return the quantised modules that have their weight, packed or not, and not its scales alone."""
    weights = {stem(name) for name in view.tensors if name.endswith(".weight") or _PACKED.search(name)}
    return quantised_modules(view) & weights


def without_scales(view: View) -> list[str]:
    """Return the quantised modules with nothing beside the weight, which these methods cannot do without."""
    scaled = {stem(name) for name in view.tensors if _BESIDE.search(name)}
    return sorted(quantised_modules(view) - scaled)


def not_carried(view: View, dialect: DialectFile) -> str | None:
    """Return why a conversion to Speculators cannot carry these quantised weights; None where it can.

    vLLM gives `quantization_config` at the top of config.json to the drafter's class, whatever the layout
    (transformers_utils/config.py get_config, utils.py get_draft_quant_config; 0.20 to 0.33). Where native and converted
    folder are loaded by one class, the same settings over tensors of the same names and bytes are the same layers.
    """
    settings = view.config.get("quantization_config")
    if not isinstance(settings, dict):
        return "the settings are not in quantization_config at the top of config.json"
    method = str(settings.get("quant_method", "")).lower()
    if method not in SCALED:
        return f"only the settings of {', '.join(sorted(SCALED))} are known to mean the same in both layouts"
    if dialect.layout == "foreign" or (dialect.layout == "native" and dialect.method == "peagle"):
        return "this layout and Speculators are not known to reach one class in vLLM with the same settings"
    modules = quantised_modules(view)
    if not modules:
        return "no tensor is quantised, though the settings say so"
    alone = without_scales(view)
    if alone:
        return f"{alone[0]} has no scale"
    outside = sorted(module for module in modules if not _DECODER.fullmatch(module))
    if outside:
        return (
            f"{outside[0]} is no projection of a decoder layer; such modules are changed, or not read by every release"
        )
    return None


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
