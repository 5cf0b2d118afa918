"""KV capacity against figures that vLLM itself gave: its own functions run without a GPU, and logs of real servers.

Table: `get_kv_cache_groups` and `get_kv_cache_capacity` of vLLM 0.33.0 with 40 GiB, blocks of 16 tokens, bf16, one
batch of 8192 tokens in flight. Logs: "Available KV cache memory" and "GPU KV cache size" in public repositories; a
figure printed with two digits leaves an error of its own, hence 1 %.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from production import verifier_document

from spectool.planning.kv_capacity import capacity, longest
from spectool.planning.kv_groups import CacheLayer, UngroupableError, group_layers
from spectool.planning.kv_layers import CacheSettings, verifier_layers
from spectool.planning.models import UnknownError, model_of

GIB = 2**30
POOL = 40 * GIB
IN_FLIGHT = 8192


def full(count: int, heads: int, dim: int, element: int = 2, block: int = 16) -> list[CacheLayer]:
    return [CacheLayer("full", heads, 2 * dim * element, block, geometry=f"{dim} x {element}")] * count


def sliding(count: int, heads: int, dim: int, window: int, block: int = 16) -> list[CacheLayer]:
    return [CacheLayer("sliding", heads, 4 * dim, block, window=window, geometry=f"{dim} x 2")] * count


def latent(count: int, block: int = 64) -> list[CacheLayer]:
    return [CacheLayer("mla", 1, 2 * 576, block, geometry="576 x 2")] * count


def states(count: int, block: int, held: int, drafted: int = 0) -> list[CacheLayer]:
    """The gated delta net of Qwen3.8-27B."""
    size = 10240 * (3 + drafted) * 2 + 48 * 128 * 128 * 4
    return [CacheLayer("state", 1, size, block, states=held, padded=4096 * block)] * count


QWEN3_8B = full(36, 8, 128)
GPT_OSS_20B = full(12, 8, 64) + sliding(12, 8, 64, 128)
GPT_OSS_120B = full(18, 8, 64) + sliding(18, 8, 64, 128)
GEMMA_LIKE = sliding(50, 16, 256, 1024) + full(10, 4, 512)

WORKED_TABLE = [
    (QWEN3_8B, 40960, 291264, 1),
    (QWEN3_8B + full(5, 8, 128), 40960, 255744, 1),
    (QWEN3_8B + full(4, 4, 128), 40960, 275936, 1),
    (QWEN3_8B + sliding(5, 8, 128, 2048), 40960, 254188, 9),
    (QWEN3_8B + sliding(4, 8, 128, 2048) + full(1, 8, 128), 40960, 255740, 11),
    (full(36, 8, 128, 1) + full(5, 8, 128), 40960, 455888, 1),
    (GPT_OSS_20B, 131072, 1643116, 2),
    (GPT_OSS_20B + full(1, 8, 64), 131072, 1516722, 2),
    (GPT_OSS_20B + full(1, 8, 128), 131072, 1420387, 25),
    (GPT_OSS_20B + full(4, 8, 64), 131072, 1232344, 2),
    (GPT_OSS_20B + full(4, 8, 128), 131072, 1009962, 7),
    (GPT_OSS_120B, 131072, 1095405, 2),
    (GPT_OSS_120B + full(1, 8, 64), 131072, 1037759, 2),
    (GPT_OSS_120B + full(1, 8, 128), 131072, 991703, 37),
    (GPT_OSS_120B + full(4, 8, 64), 131072, 896247, 2),
    (GPT_OSS_120B + full(4, 8, 128), 131072, 716377, 11),
    (GPT_OSS_120B + full(8, 8, 64), 131072, 758361, 2),
    (GPT_OSS_120B + full(8, 8, 128), 131072, 504981, 7),
    (GEMMA_LIKE + full(4, 8, 128), 65536, 182995, 17),
    (GEMMA_LIKE + full(4, 4, 512), 65536, 176056, 5),
    (GEMMA_LIKE + full(5, 8, 128), 65536, 197197, 13),
    (GEMMA_LIKE + full(5, 4, 512), 65536, 164321, 5),
    (latent(61) + full(5, 8, 128, block=64), 65536, 473216, 1),
    (latent(61) + sliding(5, 8, 128, 2048, block=64), 65536, 473216, 1),
    (states(24, 784, 1) + full(8, 1, 1024, block=784), 65536, 1258743, 4),
    (states(24, 784, 8) + full(8, 1, 1024, block=784) + full(5, 8, 128, block=784), 65536, 600148, 8),
    (sliding(12, 8, 128, 1024) + full(28, 8, 128), 65536, 278205, 4),
]


@pytest.mark.parametrize(("layers", "length", "tokens", "groups"), WORKED_TABLE)
def test_the_worked_table(layers: list[CacheLayer], length: int, tokens: int, groups: int) -> None:
    found = capacity(layers, POOL, length, IN_FLIGHT)
    assert (found.tokens, len(found.groups)) == (tokens, groups)


def test_a_sliding_drafter_may_cost_more_than_a_full_one() -> None:
    assert (
        capacity(QWEN3_8B + sliding(5, 8, 128, 2048), POOL, 40960, IN_FLIGHT).tokens
        < capacity(QWEN3_8B + full(5, 8, 128), POOL, 40960, IN_FLIGHT).tokens
    )


def uniform(layers: int, kv_heads: int, head_dim: int) -> dict[str, Any]:
    return {
        "model_type": "qwen3",
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
    }


def gated(layers: int, kv_heads: int, value_heads: int) -> dict[str, Any]:
    """Qwen3.5 and later: three linear layers, then a full one."""
    return {
        **uniform(layers, kv_heads, 256),
        "model_type": "qwen3_5_text",
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": value_heads,
        "linear_value_head_dim": 128,
        "mamba_ssm_dtype": "float32",
    }


LOGGED = [
    pytest.param(uniform(48, 4, 128), CacheSettings(), 4.85, 16384, 8192, 52960, id="q3-30b-gb10"),
    pytest.param(uniform(36, 8, 128), CacheSettings(), 6.63, 8192, 8192, 48272, id="q3-8b-nvfp4-16g"),
    # These two logs print the concurrency only: 3.47 and 1.94 requests of 8192 tokens.
    pytest.param(uniform(36, 8, 128), CacheSettings(), 3.9, 8192, 8192, 3.47 * 8192, id="q3-8b-fp8-16g"),
    pytest.param(uniform(40, 8, 128), CacheSettings(), 2.43, 8192, 8192, 1.94 * 8192, id="q3-14b-nvfp4-16g"),
    pytest.param(uniform(28, 2, 128), CacheSettings(), 33.42, 4096, 8192, 1251440, id="q25-15b-46g"),
    pytest.param(uniform(36, 2, 128), CacheSettings(), 2.41, 2048, 8192, 70240, id="6g-3b"),
    # Prefix caching holds two states per request. Whether it was on in the second log is not said; off fits.
    pytest.param(gated(40, 2, 32), CacheSettings(dtype="fp8"), 5.98, 131072, 8192, 567978, id="q36-35b-nvfp4-5090"),
    pytest.param(
        gated(64, 4, 48),
        CacheSettings(dtype="fp8", prefix_caching=False),
        7.08,
        131072,
        8192,
        222822,
        id="q38-27b-3090",
    ),
]


@pytest.mark.parametrize(("config", "settings", "gib", "length", "in_flight", "tokens"), LOGGED)
def test_logged_servers(
    config: dict[str, Any], settings: CacheSettings, gib: float, length: int, in_flight: int, tokens: float
) -> None:
    found = capacity(verifier_layers(model_of("v", config), settings), int(gib * GIB), length, in_flight)
    assert found.tokens == pytest.approx(tokens, rel=0.01)


def test_a_logged_gemma_4() -> None:
    """gemma4-31b-bf16: sliding and full layers of different heads, and only one batch in flight (vLLM 0.25)."""
    model = model_of("gemma-4-31B-it", verifier_document("google/gemma-4-31B-it")["config"])
    found = capacity(verifier_layers(model, CacheSettings()), int(28.41 * GIB), 32768, 8192)
    assert (found.tokens, round(found.concurrency, 2)) == (97541, 2.98)
    crowded = capacity(verifier_layers(model, CacheSettings()), int(28.41 * GIB), 32768, 16384)
    assert (crowded.tokens, round(crowded.concurrency, 2)) == (58940, 1.8)


def test_a_logged_hybrid_with_its_drafter() -> None:
    """q38-27b-dflash2-strix: 48 gated delta nets, 16 full layers, 5 sliding draft layers, K 7, batches of 2048."""
    layers = verifier_layers(model_of("v", gated(64, 4, 48)), CacheSettings(speculative_tokens=7))
    block = next(layer.block for layer in layers if layer.kind == "full")
    found = capacity([*layers, *sliding(5, 8, 128, 2048, block)], int(15.46 * GIB), 131072, 2 * 2048)
    assert found.tokens == 174643


def test_the_longest_length_is_the_last_that_fits() -> None:
    layers = GEMMA_LIKE + full(4, 8, 128)
    length = longest(layers, 5 * GIB, 262144, IN_FLIGHT)
    assert capacity(layers, 5 * GIB, length, IN_FLIGHT).fits
    assert not capacity(layers, 5 * GIB, length + 1, IN_FLIGHT).fits
    assert longest(layers, GIB // 4096, 262144, IN_FLIGHT) == 0


def test_latent_pages_that_divide_nothing_are_refused() -> None:
    with pytest.raises(UngroupableError, match="MLA page"):
        group_layers(latent(4) + states(4, 784, 1))


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"model_type": "deepseek_v3"}, "model_type 'deepseek_v3'"),
        ({"sliding_window": 4096, "use_sliding_window": True}, "sliding_window"),
        ({"layer_types": ["sliding_attention"] * 36}, "layer_types sliding_attention"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}, "--kv-cache-dtype"),
    ],
)
def test_what_is_not_known_is_said(change: dict[str, Any], missing: str) -> None:
    config = {**uniform(36, 8, 128), **change}
    with pytest.raises(UnknownError, match=missing):
        verifier_layers(model_of("v", json.loads(json.dumps(config))), CacheSettings())


def test_an_unknown_cache_dtype_is_said() -> None:
    with pytest.raises(UnknownError, match="turboquant"):
        verifier_layers(model_of("v", uniform(2, 8, 128)), CacheSettings(dtype="turboquant_4bit_nc"))


def test_tensor_parallel_ranks_share_heads_or_replicate_them() -> None:
    assert [
        verifier_layers(model_of("v", uniform(1, 4, 128)), CacheSettings(tensor_parallel=ranks))[0].kv_heads
        for ranks in (1, 2, 4, 8)
    ] == [4, 2, 1, 1]
