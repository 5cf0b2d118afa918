"""The tensors of a verifier's checkpoint, from its config: for folders without weights, and Hub ids.

Names and shapes are those transformers writes. The counts equal the published ones to the last parameter for Qwen3-4B,
8B, 14B, 32B, 30B-A3B, Llama 3.1-8B and 3.3-70B (a test); of gemma-4 the language model is counted, its vision part not.
"""

from __future__ import annotations

from spectool.planning.models import Model, UnknownError

Shapes = dict[str, tuple[int, ...]]


def verifier_shapes(model: Model) -> Shapes:
    """Return the name and shape of every weight of the language model.

    Raises:
        UnknownError: the family's tensors are not known, or a size is missing.

    """
    family = model.family.weights if model.family else None
    if family is None:
        named = model.text.get("model_type") or model.config.get("model_type")
        raise UnknownError(
            f"the tensors of model_type {named!r} are not known to spectool; a folder with weights tells"
        )
    hidden, vocab = model.count("hidden_size"), model.count("vocab_size")
    root = "model.language_model" if family == "gemma4" else "model"
    shapes: Shapes = {f"{root}.embed_tokens.weight": (vocab, hidden), f"{root}.norm.weight": (hidden,)}
    if not model.tied:
        shapes["lm_head.weight"] = (vocab, hidden)
    for index in range(model.layers):
        layer = {"dense": _dense, "moe": _moe, "gemma4": _gemma4}[family](model, index)
        shapes |= {f"{root}.layers.{index}.{name}": shape for name, shape in layer.items()}
    return shapes


def _dense(model: Model, index: int) -> Shapes:
    del index
    return {**_attention(model, model.kv_heads, model.head_dim), **_mlp(model, "mlp"), **_norms(model)}


def _moe(model: Model, index: int) -> Shapes:
    """Qwen3-MoE: a router and experts, except in the layers the config lists."""
    sparse = model.text.get("decoder_sparse_step", 1)
    if index in (model.text.get("mlp_only_layers") or ()) or not sparse or (index + 1) % sparse:
        return _dense(model, index)
    hidden, width, experts = (model.count(key) for key in ("hidden_size", "moe_intermediate_size", "num_experts"))
    shapes = {**_attention(model, model.kv_heads, model.head_dim), **_norms(model)}
    shapes["mlp.gate.weight"] = (experts, hidden)
    for expert in range(experts):
        shapes |= _gated(f"mlp.experts.{expert}", hidden, width)
    return shapes


def _gemma4(model: Model, index: int) -> Shapes:
    """Gemma 4, dense: full layers have wider heads and, with `attention_k_eq_v`, no v_proj; a scalar per layer."""
    text = model.text
    if text.get("enable_moe_block") or text.get("hidden_size_per_layer_input") or text.get("num_kv_shared_layers"):
        raise UnknownError("the tensors of a Gemma 4 with experts, per-layer inputs or shared caches are not known")
    hidden = model.count("hidden_size")
    slides = text["layer_types"][index] == "sliding_attention"
    if slides:
        shapes = _attention(model, model.kv_heads, model.head_dim)
    else:
        same = bool(text.get("attention_k_eq_v"))
        heads = model.count("num_global_key_value_heads") if same else model.kv_heads
        shapes = _attention(model, heads, model.count("global_head_dim"))
        if same:
            del shapes["self_attn.v_proj.weight"]
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    shapes |= {f"{norm}_layernorm.weight": (hidden,) for norm in norms}
    return {**shapes, **_mlp(model, "mlp"), "layer_scalar": (1,)}


def _attention(model: Model, kv_heads: int, head_dim: int) -> Shapes:
    hidden = model.count("hidden_size")
    queries, keys = model.heads * head_dim, kv_heads * head_dim
    shapes: Shapes = {
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
    }
    if model.text.get("attention_bias"):
        shapes |= {f"{name.removesuffix('weight')}bias": (shape[0],) for name, shape in shapes.items()}
    if model.family is not None and model.family.model_type != "llama":
        shapes |= {"self_attn.q_norm.weight": (head_dim,), "self_attn.k_norm.weight": (head_dim,)}
    return shapes


def _mlp(model: Model, name: str) -> Shapes:
    return _gated(name, model.count("hidden_size"), model.count("intermediate_size"))


def _gated(name: str, hidden: int, width: int) -> Shapes:
    return {
        f"{name}.gate_proj.weight": (width, hidden),
        f"{name}.up_proj.weight": (width, hidden),
        f"{name}.down_proj.weight": (hidden, width),
    }


def _norms(model: Model) -> Shapes:
    hidden = model.count("hidden_size")
    return {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
