"""The trainer's reading: a folder and a dialect file become a `Drafter`, with evidence for every value."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

from spectool.dialects.attention import read_attention
from spectool.dialects.aux_layers import read_aux_layers
from spectool.dialects.catalogue import Dialect
from spectool.dialects.dimensions import declared_sizes, measured_sizes
from spectool.dialects.record import Gap, Question, Reading
from spectool.dialects.rope import read_rope
from spectool.dialects.sources import Resolver
from spectool.dialects.view import View
from spectool.drafter.model import Confidence, Dimensions, Drafter, Markov, SlotLayout
from spectool.formats.dialect import DialectFile
from spectool.formats.lookup import MISSING, is_number, lookup
from spectool.formats.verifier import VerifierView
from spectool.tensors.placement import place

UNSTATED = "unstated"  # a Markov head whose type the file does not say; rule HED002


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
    sizes = {**declared, **measured_sizes(shapes, declared)}
    for name in (
        "hidden_size",
        "intermediate_size",
        "num_layers",
        "num_heads",
        "num_kv_heads",
        "head_dim",
        "vocab_size",
    ):
        if name not in sizes:
            resolver.gaps.append(Gap("dimensions", "missing", f"{name} stands neither in config.json nor in a tensor"))
            sizes[name] = 0
    aux_layers = read_aux_layers(file.read.aux_layers, resolver, verifier)
    block = resolver.integer("block_size", file.read.block_size)
    slots, tokens = _slots(file, resolver, block)
    markov, confidence = _heads(file, resolver)
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
        embedding_scale=_embedding_scale(file, resolver, sizes["hidden_size"], verifier),
        logit_scale=resolver.number("logit_scale", file.read.logit_scale, 1.0),
        markov=markov,
        confidence=confidence,
        max_position_embeddings=decoder.get("max_position_embeddings"),
    )
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


def _heads(file: DialectFile, resolver: Resolver) -> tuple[Markov | None, Confidence | None]:
    markov = None
    if file.read.markov_rank is not None:
        rank = resolver.integer("markov_rank", file.read.markov_rank)
        kind = resolver.value("markov_type", file.read.markov_type)
        markov = Markov(UNSTATED if kind is None else str(kind), rank) if rank is not None else None
    confidence = None
    if resolver.flag("confidence", file.read.confidence):
        confidence = Confidence(resolver.flag("confidence_with_markov", file.read.confidence_with_markov))
    return markov, confidence


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
        width = shapes.get("fc.weight", (0, 0))[-1]
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


def _embedding_scale(file: DialectFile, resolver: Resolver, hidden: int, verifier: VerifierView | None) -> float:
    """Return the factor on the verifier's token embedding, by family where the file does not say.

    Gemma multiplies by sqrt(hidden_size) rounded to bf16 (transformers `Gemma3TextScaledWordEmbedding`): 73.5 for 5376.
    """
    scale = resolver.number("embedding_scale", file.read.embedding_scale, 0.0)
    source = file.read.embedding_scale
    if scale or source is None or source.default != "verifier-family":
        return scale or 1.0
    if verifier is None or not str(verifier.model_type).startswith("gemma"):
        return 1.0
    scale = to_bf16(math.sqrt(hidden))
    resolver.assume("embedding_scale", f"{scale:g}", "gemma verifiers scale their embedding; the file does not say so")
    return scale


def _epsilon(decoder: Mapping[str, Any], resolver: Resolver) -> float:
    value = decoder.get("rms_norm_eps")
    if is_number(value):
        return float(value)
    # The default of transformers' Qwen3Config and LlamaConfig, through which every trainer here goes.
    return float(resolver.note("rms_norm_eps", 1e-6, "absent"))


def to_bf16(value: float) -> float:
    """Round a positive number to the nearest bfloat16, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", rounded))[0])
