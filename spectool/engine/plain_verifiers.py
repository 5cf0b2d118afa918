"""The tensors of a plain verifier: what vLLM's classes of dense decoders load, and refuse.

Sources: vLLM 0.33 `model_executor/models/{llama,qwen2,qwen3}.py` and `utils.py` AutoWeightsLoader. A name that no
module has, or another shape, stops vLLM; what is missing stays as memory was, without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spectool.dialects.dimensions import MOST_LAYERS
from spectool.formats.lookup import is_int

_PLAIN = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
# What the loaders pass over, by name: a bias without a module, and buffers that older checkpoints hold.
_PASSED_OVER = re.compile(r".*\.bias|.*rotary_emb\.(inv_freq|cos_cached|sin_cached)")
_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
Shapes = dict[str, tuple[int, ...]]


def plain_verifier(config: Mapping[str, Any]) -> Shapes | None:
    """Return every tensor of a verifier by name, with shapes as [out, in]; None for a class that is not plain.

    Args:
        config: the verifier's `config.json`.

    """
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if name not in _PLAIN or isinstance(config.get("quantization_config"), dict):
        return None
    sizes = [size for key in _SIZES if is_int(size := config.get(key)) and size > 0]
    if len(sizes) < len(_SIZES) or sizes[2] > MOST_LAYERS:
        return None
    hidden, mlp, layers, heads, vocabulary = sizes
    keys: object = config.get("num_key_value_heads") or heads
    head: object = config.get("head_dim") or (128 if name == "Qwen3ForCausalLM" else hidden // heads)
    if not is_int(keys) or not is_int(head):
        return None
    tensors: Shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    if not config.get("tie_word_embeddings"):
        tensors["lm_head.weight"] = (vocabulary, hidden)
    for layer in range(layers):
        at = f"model.layers.{layer}"
        rows = {"q": heads * head, "k": keys * head, "v": keys * head}
        tensors |= {f"{at}.self_attn.{part}_proj.weight": (out, hidden) for part, out in rows.items()}
        tensors[f"{at}.self_attn.o_proj.weight"] = (hidden, heads * head)
        if name == "Qwen2ForCausalLM":
            tensors |= {f"{at}.self_attn.{part}_proj.bias": (out,) for part, out in rows.items()}
        if name == "Qwen3ForCausalLM":
            tensors |= {f"{at}.self_attn.{part}_norm.weight": (head,) for part in ("q", "k")}
        tensors |= {f"{at}.mlp.{part}_proj.weight": (mlp, hidden) for part in ("gate", "up")}
        tensors[f"{at}.mlp.down_proj.weight"] = (hidden, mlp)
        tensors |= {f"{at}.{part}_layernorm.weight": (hidden,) for part in ("input", "post_attention")}
    return tensors


def unread(name: str, config: Mapping[str, Any]) -> bool:
    """Say whether vLLM passes over a tensor that no module of the class has."""
    return bool(_PASSED_OVER.fullmatch(name)) or (name == "lm_head.weight" and bool(config.get("tie_word_embeddings")))
