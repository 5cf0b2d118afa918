"""The trainer's reading: a folder and a dialect file become a `Drafter`, with evidence for every value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectool.dialects.attention import read_attention
from spectool.dialects.aux_layers import read_aux_layers
from spectool.dialects.catalogue import Dialect
from spectool.dialects.dimensions import declared_sizes, measured_sizes
from spectool.dialects.heads import head_is_zero, read_heads
from spectool.dialects.predicates import matches
from spectool.dialects.record import Gap, Question, Reading
from spectool.dialects.rope import read_rope
from spectool.dialects.scales import embedding_scale
from spectool.dialects.sources import Resolver
from spectool.dialects.view import View
from spectool.drafter.model import Dimensions, Drafter, SlotLayout
from spectool.formats.dialect import DialectFile
from spectool.formats.lookup import MISSING, is_number, lookup
from spectool.formats.verifier import VerifierView
from spectool.tensors.placement import place

# The largest in use is 1e-5; below zero the root gives NaN, and a large one flattens every state.
_MOST_EPSILON = 0.1
_SIZES = ("hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "vocab_size")


def read_drafter(
    view: View, dialect: Dialect, *, verifier: VerifierView | None = None, settings: Mapping[str, Any] | None = None
) -> Reading:
    """Read a folder as its trainer means it.

    What cannot be read is noted as a gap (for rules) or a question (for `--set`), never guessed; the drafter is
    returned with None in such fields.
    """
    file = dialect.file
    resolver = Resolver(view.config, settings or {})
    decoder = _decoder(view, file, resolver)
    placements = place(view.tensors, file)
    shapes = {target: item.shape(view.tensors[item.source].shape) for target, item in placements.placed.items()}
    declared = declared_sizes(decoder)
    sizes = _sizes({**declared, **measured_sizes(shapes, declared)}, file, resolver, verifier)
    for item in file.assume:
        if not any(matches(predicate, view) for predicate in item.unless):
            resolver.assume(item.field, item.value, item.why)
    aux_layers = read_aux_layers(file.read.aux_layers, resolver, verifier)
    block = resolver.integer("block_size", file.read.block_size)
    slots, tokens = _slots(file, resolver, block)
    zero = head_is_zero(view, {target: item.source for target, item in placements.placed.items()})
    markov, confidence = read_heads(file, resolver, shapes, zero=zero)
    qk_norm = file.backbone.qk_norm == "always" or any(name.endswith("self_attn.q_norm.weight") for name in shapes)
    layers = sizes["num_layers"]
    attention = read_attention(decoder, file.attention, layers, declared.get("num_layers", layers), resolver)
    drafter = Drafter(
        method=file.method,
        aux_layers=aux_layers,
        slots=slots,
        block_size=block,
        speculative_tokens=tokens,
        mask_token_id=resolver.integer("mask_token_id", file.read.mask_token_id),
        dimensions=_dimensions(file, resolver, sizes, shapes, aux_layers, verifier),
        attention=attention,
        rope=read_rope(decoder, file.rope, sizes["head_dim"], resolver),
        qk_norm=qk_norm,
        rms_norm_eps=_epsilon(decoder, resolver),
        activation=str(decoder.get("hidden_act", "silu")),
        norm_before_residual=_flag_or_tensor(file, resolver, "norm_before_residual", shapes, ""),
        norm_before_fc=bool(_flag_or_tensor(file, resolver, "norm_before_fc", shapes, "input_norm.weight")),
        fc_norm=bool(_flag_or_tensor(file, resolver, "fc_norm", shapes, "fc_norm.0.weight")),
        attention_bias="layers.0.self_attn.q_proj.bias" in shapes,
        mlp_bias="layers.0.mlp.gate_proj.bias" in shapes,
        sinks="layers.0.self_attn.attention_sink_bias" in shapes,
        logit_scale=resolver.number("logit_scale", file.read.logit_scale, 1.0),
        value_scale=resolver.number("value_scale", file.read.value_scale, 1.0),
        markov=markov,
        confidence=confidence,
        max_position_embeddings=decoder.get("max_position_embeddings"),
    )
    shipped = "embed_tokens.weight" in shapes
    scale = embedding_scale(file.read.embedding_scale, resolver, drafter, verifier, shipped=shipped)
    drafter = replace(drafter, embedding_scale=scale)
    verifier_name = resolver.value("verifier", file.read.verifier)
    return Reading(
        drafter=drafter,
        dialect=dialect,
        evidence=resolver.evidence,
        assumptions=tuple(resolver.assumptions),
        questions=tuple(resolver.questions),
        gaps=tuple(resolver.gaps),
        placements=placements,
        declared=declared,
        verifier_layers=resolver.integer("verifier_layers", file.read.verifier_layers),
        verifier_name=verifier_name if isinstance(verifier_name, str) else None,
    )


def _sizes(
    known: dict[str, int], file: DialectFile, resolver: Resolver, verifier: VerifierView | None
) -> dict[str, int]:
    """Return every size; one that stands nowhere is 0 and noted as a gap, or asked for where the verifier has it."""
    source = file.read.vocab_size
    if source is not None and source.default == "verifier" and "vocab_size" not in known:
        if verifier is None:
            why = "the file states no vocab_size; it is the verifier's, whose folder is needed (--verifier FOLDER)"
            resolver.questions.append(Question("verifier", why))
            return {**dict.fromkeys(_SIZES, 0), **known}
        known["vocab_size"] = resolver.note("vocab_size", verifier.vocab_size, "verifier")
    for name in _SIZES:
        if name not in known:
            resolver.gaps.append(Gap("dimensions", "missing", f"{name} stands neither in config.json nor in a tensor"))
            known[name] = 0
    return known


def _decoder(view: View, file: DialectFile, resolver: Resolver) -> Mapping[str, Any]:
    if not file.backbone.under:
        return view.config
    decoder = lookup(view.config, file.backbone.under)
    if isinstance(decoder, dict):
        return decoder
    kind = "missing" if decoder is MISSING else "not an object"
    resolver.gaps.append(Gap("decoder", "missing", f"{file.backbone.under} is {kind}"))
    return {}


def _slots(file: DialectFile, resolver: Resolver, block: int | None) -> tuple[SlotLayout | None, int | None]:
    """Return slot layout and K. Where one is not stated it follows from the other and the block."""
    source = file.read.slots
    slots: SlotLayout | None = None
    if "sample_from_anchor" in resolver.settings and source is not None:
        slots = "anchor-first" if resolver.settings["sample_from_anchor"] else "bonus-anchor"
        resolver.note("slots", slots, "--set sample_from_anchor")
    else:
        slots = resolver.value("slots", source, setting="slot_layout")
    tokens = resolver.integer("speculative_tokens", file.read.speculative_tokens)
    if slots is None and source is not None and source.default == "from-tokens" and block is not None:
        layouts: dict[int, SlotLayout] = {block: "anchor-first", block - 1: "bonus-anchor"}
        slots = layouts.get(tokens or 0)
        if slots is None:
            why = f"sample_from_anchor is missing, and speculative_tokens {tokens} fits no layout of block {block}"
            resolver.questions.append(Question("sample_from_anchor", why, ("true", "false")))
        else:
            why = f"sample_from_anchor is missing; speculative_tokens {tokens} of block {block} says so"
            resolver.assume("slots", slots, why)
    if tokens is None and file.read.speculative_tokens.default == "from-block" and block is not None and slots:
        tokens = resolver.note("speculative_tokens", block if slots == "anchor-first" else block - 1, "block_size")
    return slots, tokens


def _flag_or_tensor(
    file: DialectFile, resolver: Resolver, field: str, shapes: Mapping[str, tuple[int, ...]], tensor: str
) -> bool | None:
    source = getattr(file.read, field)
    if source is None:
        return None
    value = resolver.value(field, source)
    if value is None and source.default == "from-tensors":
        return bool(resolver.note(field, tensor in shapes, "tensors"))
    return value if isinstance(value, bool) else resolver.flag(field, source)


def _dimensions(
    file: DialectFile,
    resolver: Resolver,
    sizes: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    aux_layers: tuple[int, ...] | None,
    verifier: VerifierView | None,
) -> Dimensions:
    hidden, vocabulary = sizes["hidden_size"], sizes["vocab_size"]
    draft_vocabulary = resolver.integer("draft_vocab_size", file.read.draft_vocab_size) or vocabulary
    target = resolver.integer("target_hidden_size", file.read.target_hidden_size)
    if target is None:
        width = (shapes.get("fc.weight") or (0,))[-1]
        of_verifier = verifier is not None and width == len(aux_layers or ()) * verifier.hidden_size
        target = verifier.hidden_size if verifier is not None and of_verifier else hidden
    return Dimensions(
        hidden_size=hidden,
        target_hidden_size=target,
        intermediate_size=sizes["intermediate_size"],
        num_layers=sizes["num_layers"],
        num_heads=sizes["num_heads"],
        num_kv_heads=sizes["num_kv_heads"],
        head_dim=sizes["head_dim"],
        vocab_size=vocabulary,
        draft_vocab_size=draft_vocabulary,
    )


def _epsilon(decoder: Mapping[str, Any], resolver: Resolver) -> float:
    value = decoder.get("rms_norm_eps")
    if is_number(value):
        if not 0 <= value <= _MOST_EPSILON:
            resolver.gaps.append(Gap("rms_norm_eps", "malformed", f"rms_norm_eps is {value!r}, which is no epsilon"))
        return float(value)
    # The default of transformers' Qwen3Config and LlamaConfig, through which every trainer here goes.
    return float(resolver.note("rms_norm_eps", 1e-6, "absent"))
