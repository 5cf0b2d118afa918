"""Write DFlash and DSpark drafters in the flat layouts that vLLM loads without Speculators keys.

vLLM reads more keys than any one producer writes, so the layout is the plainest one that holds the drafter: z-lab's or
DeepSpec's, ModelOpt's for sinks, rotary widths and an embedding of its own, MiMo's for a value scale, Nemotron's for a
DSpark drafter whose slot 0 is given. Source: vLLM 0.33 model_executor/models/{qwen3_dflash,qwen3_dspark}.py.
"""

from __future__ import annotations

from dataclasses import replace

from spectool.drafter.model import ZERO, Markov
from spectool.writers.carrier import RANK, zero_head
from spectool.writers.deepspec import deepspec, dspark_config
from spectool.writers.layout import (
    BLOCK_TENSORS,
    HEAD_TENSORS,
    Layout,
    Subject,
    attention_lacks,
    causal_by_kind,
    lacks_of,
    one_causality,
    output_ids,
    size_lacks,
)
from spectool.writers.plan import PlannedTensor
from spectool.writers.zlab import block_config, plain, zlab_lacks


def vllm_dflash(subject: Subject) -> Layout:
    """Return the plainest DFlash layout that vLLM reads as trained. An embedding scale needs a shipped embedding."""
    drafter = subject.drafter
    rope, size = drafter.rope, drafter.dimensions
    partial = rope is not None and rope.rotary_dim != size.head_dim
    if drafter.value_scale != 1.0:
        return _with_own_keys(subject, "dflash-mimo", BLOCK_TENSORS, attention_value_scale=drafter.value_scale)
    if drafter.sinks or partial or "embed_tokens.weight" in subject.tensors:
        return _with_own_keys(subject, "dflash-modelopt", rf"{BLOCK_TENSORS}|embed_tokens\.weight")
    layout = plain(subject)
    if drafter.logit_scale != 1.0:
        config = {**layout.config, "logit_scale": drafter.logit_scale}  # vLLM's name for z-lab's output_multiplier
        layout = replace(layout, config=config)
    return layout


def _with_own_keys(subject: Subject, dialect: str, places: str, **own: object) -> Layout:
    drafter = subject.drafter
    config = block_config(subject)
    config["dflash_config"] |= {"attention_sink_bias": drafter.sinks, **own}
    if not causal_by_kind(drafter):
        config["dflash_config"]["causal"] = one_causality(drafter)
    lacks = [*zlab_lacks(subject), *lacks_of(drafter, logit_scale=1.0, embedding_scale=1.0)]
    return Layout(dialect=dialect, drafter=drafter, config=config, places=places, lacks=tuple(lacks))


def vllm_dspark(subject: Subject) -> Layout:
    """Return DeepSpec's layout, or Nemotron's where slot 0 is given. vLLM always builds a Markov head."""
    added: tuple[PlannedTensor, ...] = ()
    if subject.drafter.markov is None:
        added = zero_head(subject.drafter.dimensions, subject.dtype)
        subject = replace(subject, drafter=replace(subject.drafter, markov=Markov(ZERO, RANK)))
    layout = deepspec(subject) if subject.drafter.slots == "anchor-first" else _nemotron(subject)
    return replace(layout, added=added)


def _nemotron(subject: Subject) -> Layout:
    drafter = subject.drafter
    own = {
        "attention_sink_bias": drafter.sinks,
        "mask_token_id": drafter.mask_token_id,
        "sample_from_anchor": False,
        "target_layer_ids": output_ids(drafter),
    }
    if not causal_by_kind(drafter):
        own["causal"] = one_causality(drafter)
    lacks = [*attention_lacks(drafter, flag=True), *size_lacks(drafter)]
    lacks += lacks_of(drafter, value_scale=1.0, logit_scale=1.0, embedding_scale=1.0)
    return Layout(
        dialect="dspark-nemotron",
        drafter=drafter,
        config={**dspark_config(subject), "dflash_config": own, "dspark_bonus_anchor": True},
        places=rf"{BLOCK_TENSORS}|{HEAD_TENSORS}|(embed_tokens|lm_head)\.weight",
        lacks=tuple(lacks),
    )
