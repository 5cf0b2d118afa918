"""The tensors a drafter consists of, under the names Speculators and vLLM use (no `model.` prefix).

Sources: vLLM 0.33 `model_executor/models/{qwen3_dflash,qwen3_dspark,llama_eagle3,qwen3_eagle3}.py` and checkpoints
saved by Speculators 0.9. vLLM does not notice a missing tensor of these classes (their `load_weights` return nothing
to check), so this list is the only completeness check there is.
"""

from __future__ import annotations

from dataclasses import dataclass

from spectool.drafter.model import Drafter


@dataclass(frozen=True, slots=True)
class Expected:
    """A tensor's shape; `optional` ones may come from the verifier (`embed_tokens`, `lm_head`) or serve training."""

    shape: tuple[int, ...]
    optional: bool = False


def inventory(drafter: Drafter) -> dict[str, Expected]:
    """Return every tensor the drafter may have, by canonical name, with shapes as [out, in].

    A reduced vocabulary needs `lm_head` and `d2t`; a full one must not carry `d2t`, which vLLM then refuses.
    """
    size = drafter.dimensions
    hidden, target = size.hidden_size, size.target_hidden_size
    taps = len(drafter.aux_layers or ())
    reduced = size.draft_vocab_size != size.vocab_size
    tensors = {
        "fc.weight": Expected((hidden, taps * target)),
        "norm.weight": Expected((hidden,)),
        "embed_tokens.weight": Expected((size.vocab_size, hidden), optional=True),
        "lm_head.weight": Expected((size.draft_vocab_size, hidden), optional=not reduced),
    }
    if reduced:
        tensors["d2t"] = Expected((size.draft_vocab_size,))
        tensors["t2d"] = Expected((size.vocab_size,), optional=True)
    for layer in range(size.num_layers):
        tensors.update(_layer(drafter, layer))
    if drafter.method == "peagle":
        # P-EAGLE trains its own embedding; the verifier's would leave the mask token's row untrained.
        tensors["embed_tokens.weight"] = Expected((size.vocab_size, hidden))
        tensors["mask_hidden"] = Expected((1, 1, taps * target))
        tensors["layers.0.hidden_norm.weight"] = Expected((hidden,))
        if drafter.norm_before_fc:
            tensors["input_norm.weight"] = Expected((taps * target,))
        if drafter.fc_norm:
            tensors |= {f"fc_norm.{tap}.weight": Expected((target,)) for tap in range(taps)}
    else:
        tensors["hidden_norm.weight"] = Expected((hidden,))
    if drafter.markov is not None:
        rank = drafter.markov.rank
        tensors["markov_head.markov_w1.weight"] = Expected((size.vocab_size, rank))
        tensors["markov_head.markov_w2.weight"] = Expected((size.draft_vocab_size, rank))
    if drafter.confidence is not None:
        rank = drafter.markov.rank if drafter.markov is not None and drafter.confidence.with_markov else 0
        tensors["confidence_head.proj.weight"] = Expected((1, hidden + rank))
        tensors["confidence_head.proj.bias"] = Expected((1,))
    return tensors


def _layer(drafter: Drafter, layer: int) -> dict[str, Expected]:
    size = drafter.dimensions
    hidden, queries, keys = size.hidden_size, size.num_heads * size.head_dim, size.num_kv_heads * size.head_dim
    # P-EAGLE's first layer reads [embedding ; hidden state], as EAGLE-3 does.
    width = 2 * hidden if drafter.method == "peagle" and layer == 0 else hidden
    attention, mlp = f"layers.{layer}.self_attn", f"layers.{layer}.mlp"
    rows = {"q": queries, "k": keys, "v": keys}
    tensors = {f"{attention}.{part}_proj.weight": Expected((out, width)) for part, out in rows.items()}
    tensors[f"{attention}.o_proj.weight"] = Expected((hidden, queries))
    if drafter.qk_norm:
        tensors |= {f"{attention}.{part}_norm.weight": Expected((size.head_dim,)) for part in ("q", "k")}
    if drafter.attention_bias:
        tensors |= {f"{attention}.{part}_proj.bias": Expected((out,)) for part, out in rows.items()}
        tensors[f"{attention}.o_proj.bias"] = Expected((hidden,))
    if drafter.sinks:
        tensors[f"{attention}.attention_sink_bias"] = Expected((size.num_heads,))
    tensors[f"{mlp}.gate_proj.weight"] = Expected((size.intermediate_size, hidden))
    tensors[f"{mlp}.up_proj.weight"] = Expected((size.intermediate_size, hidden))
    tensors[f"{mlp}.down_proj.weight"] = Expected((hidden, size.intermediate_size))
    if drafter.mlp_bias:
        tensors |= {f"{mlp}.{part}_proj.bias": Expected((size.intermediate_size,)) for part in ("gate", "up")}
        tensors[f"{mlp}.down_proj.bias"] = Expected((hidden,))
    tensors[f"layers.{layer}.input_layernorm.weight"] = Expected((hidden,))
    tensors[f"layers.{layer}.post_attention_layernorm.weight"] = Expected((hidden,))
    return tensors
