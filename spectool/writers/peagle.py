"""Write a P-EAGLE drafter as Amazon publishes it and vLLM loads it natively.

Sources: vLLM 0.33 model_executor/models/{llama_eagle3,qwen3_eagle3}.py (`midlayer.` is layer 0; the Llama class counts
aux layers in `num_aux_hidden_states` or `eagle_config`, the Qwen3 class in the list at the top),
v1/spec_decode/llm_base_proposer.py (mask token: `pard_token` and `ptd_token_id` in every release, `mask_token_id` at
the top from 0.26 on), configs/eagle.py (which architectures are known).
"""

from __future__ import annotations

from typing import Any

from spectool.writers.layout import Layout, Subject, flat_decoder
from spectool.writers.plan import PlannedTensor

PEAGLE_TENSORS = (
    r"layers\.\d+\..+|(embed_tokens|lm_head|fc|norm|input_norm)\.weight|fc_norm\.\d+\.weight|mask_hidden|d2t|t2d"
)


def vllm_peagle(subject: Subject) -> Layout:
    """Return vLLM's own layout. It stores no K: the command line gives it."""
    drafter, size = subject.drafter, subject.drafter.dimensions
    aux = list(drafter.aux_layers or ())
    flat = flat_decoder(subject)
    flat.pop("num_target_layers", None)
    config: dict[str, Any] = {
        **flat,
        "architectures": ["Qwen3ForCausalLM" if drafter.qk_norm else "LlamaForCausalLM"],
        "draft_vocab_size": size.draft_vocab_size,
        "eagle_aux_hidden_state_layer_ids": aux,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": aux},
        "fc_norm": drafter.fc_norm,
        "norm_before_fc": drafter.norm_before_fc,
        "norm_before_residual": bool(drafter.norm_before_residual),
        "num_aux_hidden_states": len(aux),
        "pard_token": drafter.mask_token_id,
        "ptd_token_id": drafter.mask_token_id,
    }
    if size.target_hidden_size != size.hidden_size:
        config["target_hidden_size"] = size.target_hidden_size
    tokens = drafter.speculative_tokens
    return Layout(
        dialect="peagle-vllm",
        drafter=drafter,
        config=config,
        places=PEAGLE_TENSORS,
        rename=_midlayer,
        settled={"speculative_tokens": tokens},
        notes=(f"the layout stores no K: serve it with num_speculative_tokens {tokens} and parallel_drafting",),
    )


def identity_map(vocab_size: int) -> tuple[PlannedTensor, ...]:
    """Return the map of a full vocabulary: offsets of zero, and a mask that takes every token."""
    return (
        PlannedTensor("d2t", "I64", (vocab_size,), "", "zeros", origin="zeros"),
        PlannedTensor("t2d", "BOOL", (vocab_size,), "", "ones", data=b"\1" * vocab_size, origin="computed"),
    )


def _midlayer(name: str) -> str:
    first = "layers.0."
    return f"midlayer.{name.removeprefix(first)}" if name.startswith(first) else name
