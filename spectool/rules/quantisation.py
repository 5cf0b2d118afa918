"""QNT: a drafter whose weights are quantised on disk, and whether vLLM runs it.

vLLM takes the settings from `quantization_config` at the top of config.json (of either layout), else from
hf_quant_config.json, else from the layer's own configuration (transformers_utils/config.py, 0.20 to 0.33).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from spectool.rules.context import Context
from spectool.rules.helpers import release_of
from spectool.rules.registry import Hit, rule
from spectool.tensors.quantised import SCALED, quantised, quantised_modules, stem, without_scales

_DRAFT = "vLLM 0.33 model_executor/models/utils.py get_draft_quant_config"
_CONFIG = "vLLM 0.33 transformers_utils/config.py get_config"
_NEEDS = "vLLM 0.20 to 0.33 model_executor/layers/quantization: get_from_keys; 0.32 run: Cannot find any of"
# The checkpoint formats among vLLM's QUANTIZATION_METHODS (model_executor/layers/quantization/__init__.py).
_METHODS = {
    *("awq", "auto_awq", "awq_marlin", "gptq", "auto_gptq", "gptq_marlin", "fp8", "fbgemm_fp8", "fp_quant"),
    *("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "compressed-tensors", "quark", "torchao", "inc"),
    *("mxfp4", "humming", "experts_int8", "moe_wna16", "bitsandbytes", "gguf"),
}

# What these methods' from_config cannot do without, each by one of its names (get_from_keys), vLLM 0.20 to 0.33.
_AWQ = (("bits", "w_bit"), ("group_size", "q_group_size"), ("zero_point",))
_GPTQ = (("bits",), ("group_size",), ("desc_act",), ("sym",))
_NEEDED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "fp8": (("activation_scheme",),),
    "fbgemm_fp8": (("modules_to_not_convert",), ("activation_scale_ub",)),
    **dict.fromkeys(("awq", "auto_awq", "awq_marlin"), _AWQ),
    **dict.fromkeys(("gptq", "auto_gptq", "gptq_marlin"), _GPTQ),
}

_SYMMETRY_WANTED = (0, 22)  # before, GPTQ without `sym` ran on a kernel of its own


def key_missing(settings: Mapping[str, Any], version: str) -> str | None:
    """Return the first key that vLLM wants of these settings and does not find; None where it finds them all."""
    needed = _NEEDED.get(str(settings.get("quant_method", "")).lower(), ())
    gone = next((names[0] for names in needed if not settings.keys() & set(names)), None)
    return None if gone == "sym" and release_of(version) < _SYMMETRY_WANTED else gone


def settings_of(context: Context) -> Mapping[str, Any] | None:
    """Return the settings as vLLM finds them in config.json; None where there are none (or in the side file)."""
    config, layer = context.view.config, context.view.config.get("transformer_layer_config")
    for place in (config, layer if isinstance(layer, dict) else {}):
        for key in ("quantization_config", "compression_config"):
            if isinstance(place.get(key), dict):
                found: Mapping[str, Any] = place[key]
                return found
    return None


def belongs(name: str, modules: set[str]) -> bool:
    """Whether a tensor, under its canonical name, is of one of these modules, under the file's names."""
    wanted = stem(name)
    return any(module == wanted or module.endswith(f".{wanted}") for module in modules)


def under_both_names(context: Context, modules: set[str]) -> set[str]:
    """Return modules of the file with their canonical names beside: P-EAGLE's `midlayer` is `layers.0`."""
    placed = context.reading.placements.placed
    return modules | {stem(target) for target, item in placed.items() if stem(item.source) in modules}


def runs_nowhere(context: Context) -> str | None:
    """Return the quantisation's name where no vLLM release loads it: then its tensors are not looked at."""
    method = quantised(context.view)
    if method is None:
        return None
    settings = settings_of(context)
    named = str((settings or {}).get("quant_method", "")).lower()
    if "quantization" in context.view.config or method == "MLX":
        return "MLX"
    if settings is not None and named and named not in _METHODS:
        return named
    return None


@rule(
    "QNT001",
    "quantised-weights",
    severity="error",
    summary="The drafter's weights are quantised in a form that vLLM does not load.",
    why="MLX files and methods that vLLM does not know are refused, or read as plain weights of the wrong shape.",
    fix=(
        "Use the bf16 original, quantised or not: vLLM runs compressed-tensors, FP8, ModelOpt, AWQ and GPTQ drafters. "
        "MLX files run in MLX only."
    ),
    references=(_DRAFT, "mlx-lm quantize: scales, biases"),
)
def not_loaded(context: Context) -> Iterator[Hit]:
    """Looks at the method's name and at MLX's own keys."""
    method = runs_nowhere(context)
    if method is not None:
        yield Hit(f"the weights are quantised ({method}), which vLLM does not load")


@rule(
    "QNT002",
    "quantisation-settings",
    scope="engine",
    summary="The settings of a quantisation and the tensors disagree, or the settings are not where vLLM looks.",
    why=(
        "Without settings vLLM builds plain layers, and scales have no module; with settings and plain tensors it "
        "builds quantised layers whose scales stay whatever memory holds."
    ),
    fix="Put quantization_config at the top of config.json (or hf_quant_config.json beside it), or remove it.",
    references=(_CONFIG, _DRAFT, _NEEDS),
)
def settings(context: Context) -> Iterator[Hit]:
    """Compares settings, side file and tensors."""
    if runs_nowhere(context) is not None:
        return
    found, side = settings_of(context), "hf_quant_config.json" in context.view.side_files
    modules = quantised_modules(context.view)
    if modules and found is None and not side:
        yield Hit(f"{len(modules)} modules are quantised ({min(modules)}), and there are no settings")
    elif found is not None and not found.get("quant_method") and not found.get("quant_algo"):
        yield Hit("quantization_config names no quant_method (KeyError in vLLM)")
    elif found is not None and (gone := key_missing(found, context.facts.version)) is not None:
        yield Hit(f"quantization_config of {found.get('quant_method')} has no {gone}, and vLLM stops without it")
    elif (
        found is not None
        and str(found.get("quant_method")).lower() in SCALED
        and (alone := without_scales(context.view))
    ):
        yield Hit(f"{len(alone)} modules are quantised and have no scale ({alone[0]})")
    elif (found is not None or side) and not modules and context.view.tensors:
        named = (found or {}).get("quant_method") or (found or {}).get("quant_algo") or "hf_quant_config.json"
        yield Hit(f"quantisation {named} is set, and no tensor is quantised")


@rule(
    "QNT003",
    "quantised-context-projections",
    scope="engine",
    methods=("dflash", "dspark"),
    summary="Quantised q/k/v projections in a release that takes their storage for plain weights.",
    why="DFlash fuses the key and value weights of all layers for the context; before 0.31 it read packed or scaled "
    "storage as numbers: an error at load, or wrong keys without one.",
    fix="Use vLLM 0.31 or newer, or a copy that quantises the MLP only.",
    references=("github.com/vllm-project/vllm issue 51581", "spectool/data/vllm-features.toml quantised_context"),
)
def context_projections(context: Context) -> Iterator[Hit]:
    """Looks for quantised q/k/v projections."""
    if "quantised_context" in context.facts.features or runs_nowhere(context) is not None:
        return
    found = sorted(name for name in quantised_modules(context.view) if re.search(r"\.(q|k|v|qkv)_proj$", name))
    if found:
        yield Hit(
            f"{found[0]} and {len(found) - 1} more are quantised: {context.facts.title} reads them as plain weights"
        )


@rule(
    "QNT004",
    "drafter-quantised",
    severity="note",
    scope="engine",
    summary="The drafter's weights are quantised.",
    why="Drafts change a little with it; spectool checks names and settings, not what the integers mean.",
    fix="Nothing to do. `spectool convert` carries such weights as they are, or says why not.",
    references=(_DRAFT,),
)
def drafter_quantised(context: Context) -> Iterator[Hit]:
    """Fires for what vLLM runs."""
    method = quantised(context.view)
    if method is not None and runs_nowhere(context) is None and quantised_modules(context.view):
        yield Hit(f"{len(quantised_modules(context.view))} modules are quantised ({method})")
