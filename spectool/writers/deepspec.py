"""Write a DSpark drafter as DeepSpec does: all keys at the top, slot 0 predicts.

Sources: github.com/deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py; sglang 0.5.23 srt/models/dspark.py
(`markov_rank` at the top only, `sample_from_anchor` true where missing); vLLM 0.33 qwen3_dspark.py.
"""

from __future__ import annotations

from typing import Any

from spectool.writers.layout import (
    BLOCK_TENSORS,
    HEAD_TENSORS,
    Lack,
    Layout,
    Subject,
    attention_lacks,
    flat_decoder,
    lacks_of,
    output_ids,
    size_lacks,
)


def deepspec(subject: Subject) -> Layout:
    """Return DeepSpec's layout. A drafter without a Markov head (DeepSpec's "DFlash") has `markov_rank: 0`."""
    drafter = subject.drafter
    lacks = [*attention_lacks(drafter, flag=False), *size_lacks(drafter)]
    lacks += lacks_of(drafter, sinks=False, value_scale=1.0, logit_scale=1.0, embedding_scale=1.0)
    if drafter.slots != "anchor-first":
        lacks.append(Lack("slots", drafter.slots, "its slot 0 always predicts"))
    return Layout(
        dialect="dspark-deepspec",
        drafter=drafter,
        config=dspark_config(subject),
        places=rf"{BLOCK_TENSORS}|{HEAD_TENSORS}|(embed_tokens|lm_head)\.weight",
        lacks=tuple(lacks),
    )


def dspark_config(subject: Subject) -> dict[str, Any]:
    """Return the keys of a DSpark drafter at the top level."""
    drafter = subject.drafter
    return {
        **flat_decoder(subject),
        **heads(subject),
        "architectures": ["Qwen3DSparkModel"],
        "block_size": drafter.block_size,
        "mask_token_id": drafter.mask_token_id,
        # Written always: readers differ in what its absence means, and nothing in the tensors shows it.
        "sample_from_anchor": drafter.slots == "anchor-first",
        "target_layer_ids": output_ids(drafter),
    }


def heads(subject: Subject) -> dict[str, Any]:
    """Return the keys of both heads; DeepSpec leaves out what belongs to a head that is not there."""
    markov, confidence = subject.drafter.markov, subject.drafter.confidence
    found: dict[str, Any] = {"enable_confidence_head": confidence is not None, "markov_rank": 0}
    if markov is not None:
        found |= {"markov_rank": markov.rank, "markov_head_type": "vanilla" if markov.kind == "zero" else markov.kind}
    if confidence is not None:
        found["confidence_head_with_markov"] = confidence.with_markov
    return found
