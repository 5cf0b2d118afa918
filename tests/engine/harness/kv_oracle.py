"""Run by the engine: group KV caches and count tokens with vLLM's own functions; no GPU is needed.

In: a JSON list of {layers, pool, length, in_flight}. Out: a JSON list of [tokens, groups], or null where vLLM refuses.
"""

import json
import logging
import sys
from types import SimpleNamespace

import torch

try:
    from vllm.v1.core import kv_cache_planning as planning  # 0.33
except ImportError:
    from vllm.v1.core import kv_cache_utils as planning
from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheLayout, MambaSpec, MLAAttentionSpec, SlidingWindowSpec

logging.disable(logging.CRITICAL)
DTYPES = {1: torch.float8_e4m3fn, 2: torch.bfloat16}


def spec(layer):
    common = {"block_size": layer["block"]}
    if layer["kind"] == "state":
        shapes, dtypes = ((layer["bytes"] // 2,),), (torch.bfloat16,)
        return MambaSpec(
            shapes=shapes, dtypes=dtypes, num_speculative_blocks=layer["states"] - 1,
            page_size_padded=layer["padded"] or None, **common,
        )
    common |= {"num_kv_heads": layer["heads"], "head_size": layer["dim"], "dtype": DTYPES[layer["element"]]}
    if layer["kind"] == "sliding":
        return SlidingWindowSpec(sliding_window=layer["window"], **common)
    return (MLAAttentionSpec if layer["kind"] == "mla" else FullAttentionSpec)(**common)


def answer(case):
    config = SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=case["length"]),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, tensor_parallel_size=1),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        cache_config=SimpleNamespace(
            get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBNHC,
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
            mamba_cache_mode="none",
        ),
        max_in_flight_tokens=case["in_flight"],
        speculative_config=None,
        num_prefill_lookahead_tokens=0,
    )
    try:
        groups = planning.get_kv_cache_groups(config, {str(i): spec(layer) for i, layer in enumerate(case["layers"])})
    except NotImplementedError:
        return None
    placed = planning.get_kv_cache_config_from_groups(config, groups, case["pool"])
    return [get_kv_cache_capacity(config, placed)[0], len(groups)]


print("ANSWER " + json.dumps([answer(case) for case in json.load(sys.stdin)]))
