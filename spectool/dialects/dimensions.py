"""Sizes of a drafter, measured on its tensors and as its config declares them. Rules compare the two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spectool.formats.lookup import is_int

LAYER = re.compile(r"layers\.(\d+)\.")
Shapes = Mapping[str, tuple[int, ...]]
# Readings walk layers one by one; a number beyond this is a slip or an attack, not a drafter.
MOST_LAYERS = 1000
MOST_SIZE = 2**40

# Our name -> the config's.
DECLARED = {
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
}


def declared_sizes(decoder: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes a config states as positive whole numbers, under our names."""
    return {
        ours: decoder[theirs]
        for ours, theirs in DECLARED.items()
        if is_int(decoder.get(theirs)) and 0 < decoder[theirs] <= (MOST_LAYERS if ours == "num_layers" else MOST_SIZE)
    }


def measured_sizes(shapes: Shapes, declared: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that tensor shapes (canonical names) settle.

    Without q/k norms a projection shows only heads x head size; the declared number of heads then splits it.
    """
    sizes: dict[str, int] = {}
    layers = {int(match[1]) for name in shapes if (match := LAYER.match(name))}
    if layers:
        sizes["num_layers"] = len(layers)
    hidden = _size(shapes, "norm.weight", 0) or _size(shapes, "fc.weight", 0)
    if hidden:
        sizes["hidden_size"] = hidden
    for layer in sorted(layers):
        prefix = f"layers.{layer}."
        mlp = _size(shapes, f"{prefix}mlp.gate_proj.weight", 0) or _size(shapes, f"{prefix}mlp.down_proj.weight", 1)
        if mlp:
            sizes.setdefault("intermediate_size", mlp)
        queries = _size(shapes, f"{prefix}self_attn.q_proj.weight", 0)
        keys = _size(shapes, f"{prefix}self_attn.k_proj.weight", 0)
        head = _size(shapes, f"{prefix}self_attn.q_norm.weight", 0) or _size(
            shapes, f"{prefix}self_attn.k_norm.weight", 0
        )
        heads = declared.get("num_heads", 0)
        if not head and queries and heads and queries % heads == 0:
            head = queries // heads
        if head:
            sizes.setdefault("head_dim", head)
        if head and queries and queries % head == 0:
            sizes.setdefault("num_heads", queries // head)
        if head and keys and keys % head == 0:
            sizes.setdefault("num_kv_heads", keys // head)
    # The map has an entry per verifier's id; without one, a Markov head is an embedding of them.
    names = ("embed_tokens.weight", "t2d", "markov_head.markov_w1.weight")
    vocabulary = next((size for name in names if (size := _size(shapes, name, 0))), 0)
    if vocabulary:
        sizes["vocab_size"] = vocabulary
    return sizes


def _size(shapes: Shapes, name: str, axis: int) -> int:
    shape = shapes.get(name, ())
    return shape[axis] if axis < len(shape) else 0
