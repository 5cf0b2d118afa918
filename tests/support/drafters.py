"""Drafters of any size as `View`s, made from a few numbers: no bytes, headers only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spectool.dialects.view import Spec, View
from spectool.formats.verifier import VerifierView, verifier_view


@dataclass(frozen=True)
class Size:
    """Numbers that a tiny drafter is made of."""

    layers: int = 2
    hidden: int = 32
    mlp: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    vocab: int = 128
    draft_vocab: int = 128
    depth: int = 8
    taps: tuple[int, ...] = (1, 3, 5)
    """Input ids, in the order of fc's column blocks."""
    block: int = 8
    mask: int = 127
    rank: int = 4
    theta: float = 10000.0
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys laid over the decoder's configuration."""
    biases: bool = False
    fc_norm: bool = False
    qk_norm: bool = False
    """P-EAGLE only; DFlash and DSpark always have them."""
    confidence: bool = True
    with_markov: bool = True


def verifier(size: Size, **changes: Any) -> VerifierView:
    """A verifier that fits."""
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": size.hidden,
        "num_hidden_layers": size.depth,
        "vocab_size": size.vocab,
        **changes,
    }
    return verifier_view("verifier", config)


def decoder(size: Size, model_type: str = "qwen3") -> dict[str, Any]:
    """The decoder's configuration."""
    return {
        "model_type": model_type,
        "hidden_size": size.hidden,
        "intermediate_size": size.mlp,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048,
        "attention_bias": size.biases,
        "rope_parameters": {"rope_type": "default", "rope_theta": size.theta},
        "vocab_size": size.vocab,
        **size.extra,
    }


def _layers(size: Size, *, qk_norm: bool, first_width: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(size.layers):
        width = first_width if layer == 0 else size.hidden
        rows = {"q": size.heads * size.head_dim, "k": size.kv_heads * size.head_dim, "v": size.kv_heads * size.head_dim}
        prefix = f"layers.{layer}"
        for part, out in rows.items():
            shapes[f"{prefix}.self_attn.{part}_proj.weight"] = (out, width)
            if size.biases:
                shapes[f"{prefix}.self_attn.{part}_proj.bias"] = (out,)
        shapes[f"{prefix}.self_attn.o_proj.weight"] = (size.hidden, rows["q"])
        if size.biases:
            shapes[f"{prefix}.self_attn.o_proj.bias"] = (size.hidden,)
        if qk_norm:
            shapes |= {f"{prefix}.self_attn.{part}_norm.weight": (size.head_dim,) for part in "qk"}
        shapes |= {f"{prefix}.mlp.{part}_proj.weight": (size.mlp, size.hidden) for part in ("gate", "up")}
        shapes[f"{prefix}.mlp.down_proj.weight"] = (size.hidden, size.mlp)
        shapes |= {
            f"{prefix}.{part}.weight": (size.hidden,) for part in ("input_layernorm", "post_attention_layernorm")
        }
    return shapes


def _view(name: str, config: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> View:
    dtypes = {"d2t": "I64", "t2d": "BOOL"}
    return View(name, config, {key: Spec(dtypes.get(key, "BF16"), shape) for key, shape in shapes.items()})


def zlab(size: Size, **top: Any) -> View:
    """A z-lab DFlash folder."""
    shapes = _layers(size, qk_norm=True, first_width=size.hidden)
    shapes |= {"fc.weight": (size.hidden, len(size.taps) * size.hidden), "hidden_norm.weight": (size.hidden,)}
    shapes["norm.weight"] = (size.hidden,)
    config = {
        **decoder(size),
        "architectures": ["DFlashDraftModel"],
        "block_size": size.block,
        "dflash_config": {"mask_token_id": size.mask, "target_layer_ids": [tap - 1 for tap in size.taps]},
        "num_target_layers": size.depth,
        **top,
    }
    return _view("zlab", config, shapes)


def deepspec(size: Size, **top: Any) -> View:
    """A DeepSpec DSpark folder."""
    shapes = dict(zlab(size).tensors.items())
    plain = {name: spec.shape for name, spec in shapes.items()}
    plain |= {"embed_tokens.weight": (size.vocab, size.hidden), "lm_head.weight": (size.vocab, size.hidden)}
    plain |= {f"markov_head.markov_w{index}.weight": (size.vocab, size.rank) for index in (1, 2)}
    if size.confidence:
        width = size.hidden + (size.rank if size.with_markov else 0)
        plain |= {"confidence_head.proj.weight": (1, width), "confidence_head.proj.bias": (1,)}
    config = {
        **decoder(size),
        "architectures": ["Qwen3DSparkModel"],
        "block_size": size.block,
        "mask_token_id": size.mask,
        "target_layer_ids": [tap - 1 for tap in size.taps],
        "num_target_layers": size.depth,
        "markov_rank": size.rank,
        "markov_head_type": "vanilla",
        "enable_confidence_head": size.confidence,
        **({"confidence_head_with_markov": size.with_markov} if size.confidence else {}),
        **top,
    }
    return _view("deepspec", config, plain)


def peagle(size: Size, **top: Any) -> View:
    """A vLLM-native P-EAGLE folder."""
    width = len(size.taps) * size.hidden
    shapes = _layers(size, qk_norm=size.qk_norm, first_width=2 * size.hidden)
    shapes |= {"fc.weight": (size.hidden, width), "mask_hidden": (1, width), "norm.weight": (size.hidden,)}
    shapes |= {"layers.0.hidden_norm.weight": (size.hidden,), "embed_tokens.weight": (size.vocab, size.hidden)}
    shapes["lm_head.weight"] = (size.draft_vocab, size.hidden)
    if size.fc_norm:
        shapes |= {f"fc_norm.{index}.weight": (size.hidden,) for index in range(len(size.taps))}
    if size.draft_vocab != size.vocab:
        shapes |= {"d2t": (size.draft_vocab,), "t2d": (size.vocab,)}
    renamed = {name.replace("layers.0.", "midlayer."): shape for name, shape in shapes.items()}
    config = {
        **decoder(size, "qwen3" if size.qk_norm else "llama"),
        "architectures": ["Qwen3ForCausalLM" if size.qk_norm else "LlamaForCausalLM"],
        "draft_vocab_size": size.draft_vocab,
        "ptd_token_id": size.mask,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(size.taps)},
        **({"fc_norm": True} if size.fc_norm else {}),
        **top,
    }
    return _view("peagle", config, renamed)
