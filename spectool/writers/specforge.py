"""Write DSpark and P-EAGLE drafters as SpecForge exports them.

Sources: specforge 0.2.0 modeling/draft/{dspark,peagle}.py and export/to_hf.py; SpecForge
scripts/gates/normalize_dflash_export.py, which promotes the keys that SGLang and vLLM look for at the top.
"""

from __future__ import annotations

from spectool.writers.deepspec import heads
from spectool.writers.layout import (
    BLOCK_TENSORS,
    HEAD_TENSORS,
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
from spectool.writers.peagle import PEAGLE_TENSORS, identity_map


def specforge_dspark(subject: Subject) -> Layout:
    """Return SpecForge's DSpark: keys in `dflash_config`, the heads' at the top as well. It ships no embedding."""
    drafter = subject.drafter
    own = {
        **heads(subject),
        "attention_mode": "gqa",
        "mask_token_id": drafter.mask_token_id,
        "projector_type": "dspark",
        "target_layer_ids": output_ids(drafter),
    }
    config = {
        **flat_decoder(subject),
        **heads(subject),
        "architectures": ["DSparkDraftModel"],
        "block_size": drafter.block_size,
        "dflash_config": own,
        "mask_token_id": drafter.mask_token_id,
        "sample_from_anchor": drafter.slots == "anchor-first",
        "target_layer_ids": output_ids(drafter),
    }
    if not causal_by_kind(drafter):
        config["is_causal"] = own["causal"] = one_causality(drafter)
    lacks = [*attention_lacks(drafter, flag=True), *size_lacks(drafter)]
    lacks += lacks_of(drafter, sinks=False, value_scale=1.0, logit_scale=1.0, embedding_scale=1.0)
    if drafter.markov is None:
        lacks.append(Lack("markov", None, "its readers refuse a DSpark drafter without a Markov head"))
    return Layout(
        dialect="dspark-specforge",
        drafter=drafter,
        config=config,
        places=rf"{BLOCK_TENSORS}|{HEAD_TENSORS}",
        lacks=tuple(lacks),
    )


def specforge_peagle(subject: Subject) -> Layout:
    """Return SpecForge's P-EAGLE: a flat Llama configuration and a vocabulary map, even of a full vocabulary.

    SpecForge keeps K in its training state only; the mask token is written under Speculators' name, which its own
    loader ignores and spectool reads.
    """
    drafter = subject.drafter
    flat = flat_decoder(subject)
    flat.pop("num_target_layers", None)
    config = {
        **flat,
        "architectures": ["PEagleDraftModel"],
        "draft_vocab_size": drafter.dimensions.draft_vocab_size,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": output_ids(drafter)},
        "mask_token_id": drafter.mask_token_id,
        "norm_before_residual": bool(drafter.norm_before_residual),
    }
    size = drafter.dimensions
    if size.target_hidden_size != size.hidden_size:
        config["target_hidden_size"] = size.target_hidden_size
    lacks = lacks_of(drafter, qk_norm=False, attention_bias=False, mlp_bias=False, fc_norm=False, norm_before_fc=False)
    if drafter.rope is not None and drafter.rope.scaling:
        lacks.append(Lack("rope", drafter.rope, "its model takes rope_theta and ignores the scaling"))
    if any(item.window is not None for item in drafter.attention):
        lacks.append(Lack("attention", drafter.attention, "its model attends to everything"))
    full = size.draft_vocab_size == size.vocab_size
    return Layout(
        dialect="peagle-specforge",
        drafter=drafter,
        config=config,
        places=PEAGLE_TENSORS,
        lacks=tuple(lacks),
        added=identity_map(size.vocab_size) if full else (),
        settled={"speculative_tokens": drafter.speculative_tokens},
    )
