"""The KV caches that verifier and drafter layers ask vLLM for, on one tensor-parallel rank.

Pages: vLLM 0.33 `model_executor/layers/attention/attention.py` (`get_kv_cache_spec`); heads on a rank are
`max(1, heads // TP)`, so fewer heads than ranks are replicated. Gated delta nets: `layers/mamba/mamba_utils.py`
(`gated_delta_net_state_shape`), `platforms/interface.py` (`_align_hybrid_block_size`), `MambaSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spectool.drafter.model import Drafter
from spectool.formats.lookup import is_int, lookup
from spectool.planning.kv_groups import CacheLayer
from spectool.planning.models import Model, UnknownError

# cache_config.DEFAULT_BLOCK_SIZE; FLASH_ATTN, FLASHINFER and TRITON_ATTN all take it.
BLOCK = 16
_KV_BYTES = {"auto": 2, "bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_WEIGHT_BYTES = 2  # vLLM runs float32 checkpoints in 16 bits too (--dtype auto)


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """What decides the caches besides the models.

    `dtype` is `--kv-cache-dtype`, `draft_dtype` the drafter's own where it has one; `prefix_caching` whether that is
    on, which is vLLM's default.
    """

    tensor_parallel: int = 1
    block: int = BLOCK
    dtype: str = "auto"
    draft_dtype: str | None = None
    speculative_tokens: int = 0
    prefix_caching: bool = True

    @property
    def element_bytes(self) -> int:
        """Bytes of one stored number.

        Raises:
            UnknownError: the dtype packs otherwise.

        """
        if self.dtype not in _KV_BYTES:
            raise UnknownError(f"the page size of --kv-cache-dtype {self.dtype} is not known to spectool")
        return _KV_BYTES[self.dtype]


def verifier_layers(model: Model, settings: CacheSettings) -> list[CacheLayer]:
    """Return the caches of the verifier's layers, in order.

    Raises:
        UnknownError: the family, or something in the file, is not known to spectool.

    """
    if model.family is None:
        named = model.text.get("model_type") or model.config.get("model_type")
        raise UnknownError(f"how vLLM caches the layers of model_type {named!r} is not known to spectool")
    if settings.dtype == "auto" and _quantised_cache(model.config):
        raise UnknownError(f"{model.name}/config.json quantises the KV cache; say --kv-cache-dtype after --")
    return _FAMILIES[model.family.cache](model, settings)


def drafter_layers(drafter: Drafter, settings: CacheSettings) -> list[CacheLayer]:
    """Return the caches of the drafter's layers, in order.

    They have the verifier's block, and its dtype where they have none of their own.
    """
    sizes = drafter.dimensions
    settings = replace(settings, dtype=settings.draft_dtype or settings.dtype)
    return [
        _attention(settings, sizes.num_kv_heads, sizes.head_dim, attention.window or 0)
        for attention in drafter.attention
    ]


def all_layers(model: Model, drafter: Drafter, settings: CacheSettings) -> list[CacheLayer]:
    """Return the caches of both models, the drafter's last.

    Raises:
        UnknownError: see `verifier_layers`.

    """
    layers = verifier_layers(model, settings)
    states = [layer for layer in layers if layer.kind == "state"]
    if not states:
        return [*layers, *drafter_layers(drafter, settings)]
    # A hybrid's attention blocks grew to the size of a state; draft layers take the same block.
    block = next(layer.block for layer in layers if layer.kind == "full")
    return [*layers, *drafter_layers(drafter, replace(settings, block=block))]


def _attention(settings: CacheSettings, kv_heads: int, head_dim: int, window: int = 0) -> CacheLayer:
    element = settings.element_bytes
    return CacheLayer(
        kind="sliding" if window else "full",
        kv_heads=max(1, kv_heads // settings.tensor_parallel),
        head_bytes=2 * head_dim * element,
        block=settings.block,
        window=window,
        geometry=f"{head_dim} x {element}",
    )


def _uniform(model: Model, settings: CacheSettings) -> list[CacheLayer]:
    """Full attention in every layer."""
    text = model.text
    if text.get("sliding_window") and text.get("use_sliding_window", True):
        raise UnknownError(f"{model.name}/config.json has a sliding_window; which layers slide is not known")
    others = set(text.get("layer_types") or ()) - {"full_attention"}
    if others:
        raise UnknownError(f"{model.name}/config.json has layer_types {', '.join(sorted(map(str, others)))}")
    return [_attention(settings, model.kv_heads, model.head_dim)] * model.layers


def _alternating(model: Model, settings: CacheSettings) -> list[CacheLayer]:
    """gpt-oss: even layers slide (`layer_idx % 2 == 0`), whatever `layer_types` says."""
    window = model.count("sliding_window")
    return [
        _attention(settings, model.kv_heads, model.head_dim, 0 if index % 2 else window)
        for index in range(model.layers)
    ]


def _gemma4(model: Model, settings: CacheSettings) -> list[CacheLayer]:
    """Gemma 4: full layers have heads of their own; the last `num_kv_shared_layers` store nothing."""
    text = model.text
    kinds = _layer_types(model)
    stored = model.layers - (text.get("num_kv_shared_layers") or 0)
    window = model.count("sliding_window")
    full_heads = text.get("num_global_key_value_heads") or model.kv_heads
    full_dim = text.get("global_head_dim") or 512  # the default of transformers 5 (configuration_gemma4.py)
    if not text.get("attention_k_eq_v"):
        full_heads = model.kv_heads  # num_global_key_value_heads counts only where K and V are the same
    return [
        _attention(settings, model.kv_heads, model.head_dim, window)
        if kind == "sliding_attention"
        else _attention(settings, full_heads, full_dim)
        for kind in kinds[:stored]
    ]


def _gated_delta_net(model: Model, settings: CacheSettings) -> list[CacheLayer]:
    """Qwen3-Next, Qwen3.5 and later: recurrent states beside full attention whose block grows to a state's size.

    A request holds one state and one more for each drafted token, two with prefix caching (`mamba_cache_mode` align).
    """
    ranks = settings.tensor_parallel
    key_heads, value_heads = model.count("linear_num_key_heads"), model.count("linear_num_value_heads")
    key_dim, value_dim = model.count("linear_key_head_dim"), model.count("linear_value_head_dim")
    steps = model.count("linear_conv_kernel_dim") - 1 + settings.speculative_tokens
    stated = model.text.get("mamba_ssm_dtype")
    if stated is not None and stated not in _STATE_BYTES:
        raise UnknownError(f"{model.name}/config.json has mamba_ssm_dtype {stated!r}")
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    state = channels // ranks * steps * _WEIGHT_BYTES
    state += value_heads // ranks * value_dim * key_dim * _STATE_BYTES.get(str(stated), _WEIGHT_BYTES)
    token = _attention(replace(settings, block=1), model.kv_heads, model.head_dim).page
    block = settings.block * -(-state // (settings.block * token))
    recurrent = CacheLayer(
        kind="state",
        kv_heads=1,
        head_bytes=state,
        block=block,
        states=(2 if settings.prefix_caching else 1) + settings.speculative_tokens,
        padded=block * token,
        geometry="state",
    )
    full = _attention(replace(settings, block=block), model.kv_heads, model.head_dim)
    return [recurrent if kind == "linear_attention" else full for kind in _layer_types(model)]


_FAMILIES = {
    "uniform": _uniform,
    "alternating": _alternating,
    "gemma4": _gemma4,
    "gated_delta_net": _gated_delta_net,
}


def _layer_types(model: Model) -> list[str]:
    kinds = model.text.get("layer_types")
    interval = model.text.get("full_attention_interval")
    if kinds is None and is_int(interval) and interval > 0:
        return ["linear_attention" if (index + 1) % interval else "full_attention" for index in range(model.layers)]
    if not isinstance(kinds, list) or len(kinds) != model.layers:
        raise UnknownError(f"{model.name}/config.json does not state one layer_types entry per layer")
    others = set(kinds) - {"full_attention", "sliding_attention", "linear_attention"}
    if others:
        raise UnknownError(f"{model.name}/config.json has layer_types {', '.join(sorted(map(str, others)))}")
    return kinds


def _quantised_cache(config: Mapping[str, Any]) -> bool:
    """Say whether a checkpoint asks for a quantised KV cache, which vLLM then takes by itself."""
    for path in ("quantization_config.kv_cache_scheme", "quantization_config.kv_cache_quant_algo"):
        if lookup(config, path):
            return True
    return False
