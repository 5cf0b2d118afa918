"""The repairs: what early trainers and converters wrote, and what they meant. Only where the meaning is certain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spectool.formats.lookup import MISSING, lookup
from spectool.rules.context import Context
from spectool.upgrade.edit import REMOVE, Edit

LAYER = "transformer_layer_config"
TOKENS = ("speculators_config", "proposal_methods", 0, "speculative_tokens")
# model_executor/models/llama_eagle3.py
_LLAMA_AUX = 3
NAME = ("speculators_config", "verifier", "name_or_path")


@dataclass(frozen=True, slots=True)
class Repair:
    """Edits that answer one rule, and why they say what the trainer meant."""

    code: str
    why: str
    edits: tuple[Edit, ...]


def repairs_for(context: Context, settings: dict[str, Any]) -> Iterator[Repair]:
    """Yield every repair a config needs. `settings` are the user's answers."""
    for repair in (_causality, _aux_count, _fc_norm, _anchor, _tokens, _model_type, _confidence):
        yield from repair(context)
    yield from _verifier_name(context, settings)
    yield from _partial_rotary(context, settings)


def _causality(context: Context) -> Iterator[Repair]:
    """One flag was for sliding layers; vLLM from 0.26 on applies it to full-attention layers too."""
    config, drafter = context.view.config, context.drafter
    full = all(layer.window is None for layer in drafter.attention)
    flag = config.get("sliding_window_non_causal", True)
    if (
        drafter.method != "dflash"
        or not full
        or (flag is not False and flag is not None)
        or "attention" not in context.differing
    ):
        return
    if lookup(config, f"{LAYER}.is_causal") is not MISSING:
        return  # somebody wrote it on purpose; the trainer's format has no such key
    why = "all layers attend fully, which Speculators trains bidirectional; the flag was meant for sliding layers"
    edits = (Edit(("sliding_window_non_causal",), True), Edit((LAYER, "is_causal"), False))  # noqa: FBT003 - a value
    yield Repair("ATT001", why, edits)


def _aux_count(context: Context) -> Iterator[Repair]:
    """VLLM sizes fc by keys: the width of the verifier, and for Llama the number of aux layers."""
    layers, size = context.drafter.aux_layers, context.drafter.dimensions
    if not layers or not context.refused("AUX004"):
        return
    if size.target_hidden_size != size.hidden_size and context.view.config.get("target_hidden_size") is None:
        why = f"fc reads {len(layers)} hidden states of {size.target_hidden_size}, wider than the drafter"
        yield Repair("AUX004", why, (Edit(("target_hidden_size",), size.target_hidden_size),))
    if context.method == "peagle" and not context.drafter.qk_norm and len(layers) != _LLAMA_AUX:
        why = f"vLLM's Llama class takes {_LLAMA_AUX} aux layers unless told; this drafter has {len(layers)}"
        yield Repair("AUX004", why, (Edit((LAYER, "num_aux_hidden_states"), len(layers)),))


def _fc_norm(context: Context) -> Iterator[Repair]:
    if context.method == "peagle" and context.drafter.fc_norm and "fc_norm" in context.differing:
        why = "vLLM reads fc_norm of this method inside transformer_layer_config only"
        yield Repair("NRM001", why, (Edit((LAYER, "fc_norm"), True),))  # noqa: FBT003 - a value


def _anchor(context: Context) -> Iterator[Repair]:
    drafter = context.drafter
    if context.method != "dspark" or "sample_from_anchor" in context.view.config or drafter.slots is None:
        return
    first = drafter.slots == "anchor-first"
    why = f"speculative_tokens {drafter.speculative_tokens} of block {drafter.block_size} is {drafter.slots}"
    yield Repair("SLT001", why, (Edit(("sample_from_anchor",), first),))


def _tokens(context: Context) -> Iterator[Repair]:
    drafter, most = context.drafter, context.drafter.most_tokens
    if context.method != "dflash" or most is None or most < 1 or drafter.speculative_tokens != drafter.block_size:
        return
    why = "the first Speculators trainers counted the anchor; a DFlash block of B drafts B - 1 tokens"
    yield Repair("SLT002", why, (Edit(TOKENS, most),))


def _model_type(context: Context) -> Iterator[Repair]:
    if context.refused("CFG002") and "hidden_size" not in context.view.config:
        why = "the decoder's keys stand in transformer_layer_config only, so the file is no plain model's"
        yield Repair("CFG002", why, (Edit(("model_type",), REMOVE),))


def _confidence(context: Context) -> Iterator[Repair]:
    config, drafter = context.view.config, context.drafter
    shape = context.shapes.get("confidence_head.proj.weight")
    absent = [key for key in ("enable_confidence_head", "confidence_head_with_markov") if key not in config]
    if context.method != "dspark" or not absent or shape is None or drafter.markov is None:
        return
    with_markov = shape == (1, drafter.dimensions.hidden_size + drafter.markov.rank)
    values = {"enable_confidence_head": True, "confidence_head_with_markov": with_markov}
    why = "the weights have a confidence head; vLLM's default for the flags is false, Speculators' is true"
    yield Repair("HED003", why, tuple(Edit((key,), values[key]) for key in absent))


def _verifier_name(context: Context, settings: dict[str, Any]) -> Iterator[Repair]:
    wanted, name = settings.get("verifier"), lookup(context.view.config, ".".join(map(str, NAME)))
    if wanted is not None and name is not MISSING and name != wanted:
        yield Repair("VER005", f"{name!r} is no repository anybody else can reach", (Edit(NAME, wanted),))


def _partial_rotary(context: Context, settings: dict[str, Any]) -> Iterator[Repair]:
    if settings.get("rope.partial") != 1 or "rope" not in context.differing:
        return
    for path in ((LAYER, "rope_parameters", "partial_rotary_factor"), (LAYER, "partial_rotary_factor")):
        if lookup(context.view.config, ".".join(path)) is not MISSING:
            yield Repair("ROP002", "you said whole heads were rotated in training", (Edit(path, REMOVE),))
