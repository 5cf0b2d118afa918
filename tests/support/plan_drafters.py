"""Drafters for the planner, made from a few numbers."""

from __future__ import annotations

from spectool.drafter.model import Attention, Dimensions, Drafter, Method


def drafter_with(
    method: Method = "dflash",
    *,
    layers: int = 5,
    heads: int = 32,
    kv_heads: int = 4,
    window: int | None = None,
    longest: int | None = None,
    mlp: int = 6144,
) -> Drafter:
    """A drafter of these sizes for Qwen3-30B-A3B, K 7."""
    return Drafter(
        method=method,
        aux_layers=(1, 12, 23),
        slots="bonus-anchor",
        block_size=8,
        speculative_tokens=7,
        mask_token_id=1,
        dimensions=Dimensions(2048, 2048, mlp, layers, heads, kv_heads, 128, 151936, 32000),
        attention=(Attention(window, causal=True),) * layers,
        rope=None,
        qk_norm=True,
        rms_norm_eps=1e-6,
        max_position_embeddings=longest,
    )
