"""Write a DFlash drafter in z-lab's layout, which SGLang, llama.cpp's converter, MLX readers and vLLM load.

Sources: github.com/z-lab/dflash dflash/model.py (keys and where they are looked for); sglang 0.5.23
srt/models/dflash.py and srt/speculative/dflash_utils.py; llama.cpp's conversion of Qwen3 DFlash, which reads
`block_size` at the top only; vLLM 0.33 model_executor/models/qwen3_dflash.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spectool.dialects.scales import GEMMA_VOCABULARIES
from spectool.writers.layout import (
    BLOCK_TENSORS,
    Lack,
    Layout,
    Subject,
    attention_lacks,
    causal_by_kind,
    flat_decoder,
    lacks_of,
    one_causality,
    output_ids,
    size_lacks,
)


def zlab(subject: Subject) -> Layout:
    """Return z-lab's layout: everything DFlash has but sinks, value scales and reduced vocabularies."""
    layout, aux = plain(subject), subject.drafter.aux_layers
    if 0 not in (aux or ()):
        return layout
    # sglang 0.5.23 speculative/dflash_utils.py refuses a negative id.
    return replace(
        layout, lacks=(*layout.lacks, Lack("aux_layers", aux, "its readers refuse -1, the embedding's output"))
    )


def plain(subject: Subject) -> Layout:
    """Return z-lab's keys, whoever reads them."""
    drafter = subject.drafter
    config = block_config(subject)
    if not causal_by_kind(drafter):
        config["is_causal"] = config["dflash_config"]["causal"] = one_causality(drafter)
    if drafter.logit_scale != 1.0:
        config["dflash_config"]["output_multiplier"] = drafter.logit_scale
    if drafter.embedding_scale != 1.0 or _of_gemma(subject):
        config["dflash_config"]["input_embedding_scale"] = drafter.embedding_scale
    lacks = [*zlab_lacks(subject), *lacks_of(drafter, sinks=False, value_scale=1.0)]
    return Layout(dialect="dflash-zlab", drafter=drafter, config=config, places=BLOCK_TENSORS, lacks=tuple(lacks))


def specforge_dflash(subject: Subject) -> Layout:
    """Return what SpecForge exports: z-lab's layout, without the factors that its model does not have."""
    layout = zlab(subject)
    more = lacks_of(subject.drafter, logit_scale=1.0, embedding_scale=1.0)
    return replace(layout, lacks=(*layout.lacks, *more))


def block_config(subject: Subject) -> dict[str, Any]:
    """Return the keys of a DFlash drafter at the default causality."""
    drafter = subject.drafter
    return {
        **flat_decoder(subject),
        "architectures": ["DFlashDraftModel"],
        "block_size": drafter.block_size,
        "dflash_config": {"mask_token_id": drafter.mask_token_id, "target_layer_ids": output_ids(drafter)},
    }


def zlab_lacks(subject: Subject) -> list[Lack]:
    """Return what no DFlash layout of this family holds."""
    drafter = subject.drafter
    return [*attention_lacks(drafter, flag=True), *size_lacks(drafter)]


def _of_gemma(subject: Subject) -> bool:
    """Whether a reader would take a missing factor for gemma's."""
    if subject.verifier is None:
        return subject.drafter.dimensions.vocab_size in GEMMA_VOCABULARIES
    return str(subject.verifier.model_type).startswith("gemma")
