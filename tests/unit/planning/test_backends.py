"""Which attention backend runs draft layers, by release and GPU: read off vLLM's sources, and held against them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_drafters import drafter_with

from spectool.drafter.model import Attention, Drafter
from spectool.errors import RefusedError
from spectool.planning.backends import Layers, chosen, drafter_backend, fault, looks_both_ways, obstacle
from spectool.planning.gpus import parse_gpus
from spectool.planning.kv_layers import CacheSettings, drafter_layers
from spectool.planning.models import UnknownError
from spectool.planning.own import own_flags

BLOCK = (Attention(None, causal=False),) * 5
A100, H200, B200, RTX = (8, 0), (9, 0), (10, 0), (12, 0)


def both_ways_drafter() -> Drafter:
    return replace(drafter_with("dflash"), attention=BLOCK)


@pytest.mark.parametrize(
    ("release", "capability", "both_ways", "dtype", "backend"),
    [
        ((0, 33), A100, True, "auto", "FLASH_ATTN"),
        ((0, 33), B200, True, "auto", "FLASH_ATTN"),
        ((0, 33), B200, False, "auto", "FLASHINFER"),
        ((0, 26), B200, True, "auto", "FLASH_ATTN"),
        ((0, 25), B200, True, "auto", "FLASHINFER"),  # 0.26 began to tell both apart
        ((0, 23), B200, True, "auto", "FLASH_ATTN"),  # FlashInfer looked one way only
        ((0, 33), H200, True, "fp8", "FLASH_ATTN"),
        ((0, 33), H200, True, "fp8_e5m2", "FLASHINFER"),
        ((0, 33), A100, True, "fp8", "FLASHINFER"),
        ((0, 33), RTX, True, "fp8", "FLASHINFER"),
        ((0, 33), B200, True, "fp8", "FLASH_ATTN"),
        ((0, 26), B200, True, "fp8", "FLASHINFER"),  # FlashAttention 4 took it from 0.27 on
        ((0, 23), A100, True, "fp8", None),
        ((0, 23), H200, True, "fp8", "FLASH_ATTN"),
        ((0, 33), (7, 5), True, "auto", "TRITON_ATTN"),
        ((0, 23), (7, 5), True, "auto", "FLEX_ATTENTION"),
    ],
)
def test_what_vllm_takes_by_itself(
    release: tuple[int, int], capability: tuple[int, int], both_ways: bool, dtype: str, backend: str | None
) -> None:
    assert chosen(Layers(release, capability, 128, both_ways, dtype)).backend == backend


def test_heads_decide_too() -> None:
    layers = Layers((0, 33), A100, 80, True, "fp8")
    assert obstacle("FLASHINFER", layers) == "has no kernel for heads of 80"
    assert chosen(layers).backend == "TRITON_ATTN"
    assert obstacle("FLASH_ATTN", replace(layers, head_dim=264, dtype="auto")) == "has no kernel for heads of 264"
    assert obstacle("FLASH_ATTN", replace(layers, head_dim=256, dtype="auto")) is None


def test_what_is_known_against_a_backend() -> None:
    layers = Layers((0, 25), B200, 128, True)
    assert fault("FLASHINFER", layers) is not None
    assert fault("FLASHINFER", replace(layers, both_ways=False)) is None
    assert fault("FLASHINFER", replace(layers, capability=H200)) is None
    assert fault("FLASHINFER", replace(layers, release=(0, 26), dtype="fp8")) is None  # nothing better takes it
    assert fault("FLASH_ATTN", layers) is None


def test_a_plan_says_which_and_why() -> None:
    drafter, gpu = both_ways_drafter(), parse_gpus("b200:1").gpu
    name, why = drafter_backend(drafter, gpu, "0.33.0", own_flags([]))
    assert (name, why) == ("FLASH_ATTN", "vLLM's own choice on compute capability 10.0 for layers that look both ways")
    inherited = drafter_backend(drafter, parse_gpus("a100-80gb:1").gpu, "0.33.0", own_flags(["--kv-cache-dtype=fp8"]))
    assert inherited[0] == "FLASHINFER"
    assert "as the verifier's (FLASH_ATTN takes no fp8 KV cache on compute capability 8.0)" in inherited[1]
    mine = own_flags(["--kv-cache-dtype=fp8"], speculative={"kv_cache_dtype": "bfloat16"})
    assert drafter_backend(drafter, parse_gpus("a100-80gb:1").gpu, "0.33.0", mine)[0] == "FLASH_ATTN"
    named = own_flags([], speculative={"attention_backend": "triton_attn"})
    assert drafter_backend(drafter, gpu, "0.33.0", named) == ("TRITON_ATTN", "named by you")


def test_what_is_not_known_is_said() -> None:
    gpu = parse_gpus("a100-80gb:1").gpu
    with pytest.raises(UnknownError, match="attention sinks"):
        drafter_backend(replace(drafter_with("dflash"), sinks=True), gpu, "0.33.0", own_flags([]))
    with pytest.raises(UnknownError, match="nvfp4"):
        drafter_backend(drafter_with("dflash"), gpu, "0.33.0", own_flags(["--kv-cache-dtype", "nvfp4"]))
    with pytest.raises(RefusedError, match="no attention backend"):
        drafter_backend(both_ways_drafter(), gpu, "0.23.0", own_flags(["--kv-cache-dtype", "fp8"]))


def test_the_drafters_own_cache_dtype_is_counted() -> None:
    settings = CacheSettings(dtype="fp8")
    inherited = drafter_layers(drafter_with("dflash"), settings)[0]
    own = drafter_layers(drafter_with("dflash"), replace(settings, draft_dtype="bfloat16"))[0]
    assert own.head_bytes == 2 * inherited.head_bytes


@pytest.mark.parametrize(
    ("name", "release", "answer"),
    [
        ("FLASHINFER", (0, 23), False),
        ("FLASHINFER", (0, 24), True),
        ("CPU_ATTN", (0, 24), False),
        ("CPU_ATTN", (0, 25), True),
        ("ROCM_SEGMENTED_ATTN", (0, 31), False),
        ("ROCM_SEGMENTED_ATTN", (0, 32), True),
        ("ULTRAQUANT", (0, 33), False),
        ("SOMEBODYS_OWN", (0, 33), None),
    ],
)
def test_who_attends_to_later_tokens(name: str, release: tuple[int, int], answer: bool | None) -> None:
    assert looks_both_ways(name, release) is answer
