"""The dialect file: how one producer stores one method, as data.

A dialect file says where each field of `Drafter` stands, in which convention, and what absence means: a value, a named
default, or a question to the user. Reading it is `spectool.dialects.read`; writing is never described here.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spectool.drafter.model import Method
from spectool.formats.pattern import check_pattern

NamedDefault = Literal[
    "eagle3-default",  # aux layers (2, n/2, n-3) of a verifier with n layers, as input ids
    "from-block",  # K: the block, one less where slot 0 is given
    "from-tokens",  # slot layout: the one in which K fills the block
    "from-tensors",  # a head or norm is there where its tensors are
    "vocab-size",  # the draft vocabulary is the whole one
    "verifier",  # the verifier's; a question where it is not known
    "verifier-family",  # gemma: bf16(sqrt(hidden size)) times what the file states; others: what it states, or 1
    "verifier-family-if-published",  # gemma: bf16(sqrt(hidden size)) for a known drafter, a question for others; else 1
    "verifier-family-or-raw",  # gemma: a question between both, since the trainer has two ways; else 1
]
Direction = Literal["causal", "bidirectional"]


KINDS = ("arch", "key", "tensor", "file")


def check_predicates(*predicates: str) -> None:
    """Raise ValueError for a predicate of an unknown kind, or with a pattern that is none or may take for ever."""
    for predicate in predicates:
        kind, _, rest = predicate.partition(":")
        if kind not in KINDS or not rest:
            raise ValueError(f"unknown predicate {predicate!r}: use {', '.join(f'{name}:' for name in KINDS)}")
        if kind == "tensor":
            check_pattern(rest)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Match(_Strict):
    """Which folders this dialect is.

    Predicates: `arch:NAME`, `key:a.b` (present and not null), `key:a.b=value`, `tensor:REGEX` (search in the names),
    `file:NAME` (a file beside the config).
    """

    all: tuple[str, ...] = Field(default=(), description="Every one must hold.")
    any: tuple[str, ...] = Field(default=(), description="At least one must hold.")
    none: tuple[str, ...] = Field(default=(), description="None may hold.")

    @model_validator(mode="after")
    def _known_kinds(self) -> Match:
        if not self.all and not self.any:
            raise ValueError("needs `all` or `any`: a dialect that matches everything is none")
        check_predicates(*self.all, *self.any, *self.none)
        return self


class Source(_Strict):
    """Where one field stands and what its absence means. At most one of `absent`, `default` and `ask`."""

    from_: tuple[str, ...] = Field(default=(), alias="from", description="Dotted keys, the first present one is used.")
    const: Any = Field(default=None, description="The producer's only possibility; no key is read.")
    absent: Any = Field(default=None, description="The value that absence means to the producer's own reader.")
    default: NamedDefault | None = Field(default=None, description="A named rule for absence.")
    optional: bool = Field(default=False, description="Absence is fine: the reader has its own rule for it.")
    ask: bool = Field(default=False, description="Absence is a question to the user, never a guess.")
    plausible: tuple[int | str, ...] = Field(default=(), description="Values to offer with the question.")
    why: str = Field(default="", description="Why the question cannot be answered from the files.")
    conflict: Literal["error", "first"] = Field(default="error", description="Two keys that disagree.")
    values: dict[str, str] = Field(default_factory=dict, description="The producer's value to ours.")


class AuxLayers(Source):
    """Aux layers with the producer's numbering: `output` id t means after layer t, `input` id a = t + 1."""

    convention: Literal["output", "input"]
    other: tuple[str, ...] = Field(
        default=(), description="Keys with the same layers in the other convention; a disagreement is a fault."
    )


class Backbone(_Strict):
    """Where the decoder's own configuration stands and what decides its kind."""

    under: str = Field(default="", description="Dotted key of the decoder's configuration; empty: top level.")
    qk_norm: Literal["always", "from-tensors"] = "always"


class AttentionPolicy(_Strict):
    """What the producer trains per layer type, and the keys that override it.

    `all_sliding` and `window` are ModelOpt's: a flag that makes every layer slide where `layer_types` names no sliding
    one (in the direction of `full`, unless a causal key speaks), and its own key for the width.
    """

    full: Direction
    sliding: Direction
    layer_types: Literal["read", "ignored"] = Field(
        default="read", description="ignored: the list is the verifier's, the drafter's layers all attend fully."
    )
    all_sliding: tuple[str, ...] = Field(default=(), description="Flags that make every layer slide.")
    window: tuple[str, ...] = Field(default=(), description="Keys for the width that go before sliding_window.")
    causal: tuple[str, ...] = Field(default=(), description="Keys that set causality for all layers.")
    sliding_bidirectional: tuple[str, ...] = Field(default=(), description="Flags that free the sliding layers.")


class RopePolicy(_Strict):
    """What the producer's rotary class takes from the file.

    `as-written`: all of it. `full-width`: it rotates whole heads whatever partial_rotary_factor says. `base-only`:
    whole heads by rope_theta alone, any scaling in the file is the verifier's. `asked`: the trainer's rotary class is
    not known, so a partial_rotary_factor is a question.
    """

    policy: Literal["full-width", "as-written", "base-only", "asked"]


class TensorRule(_Strict):
    """What becomes of tensors whose whole name matches; the first matching rule wins.

    `vocabulary`: `d2t` or `t2d`, whose kind its values prove. `mask-row`: the mask token's row of the embedding.
    """

    from_: str = Field(alias="from", description="Regular expression, matched against the whole name.")
    op: Literal["keep", "rename", "drop", "reshape", "vocabulary", "mask-row"]
    to: str = Field(default="", description="New name, with \\1 groups, for rename and reshape.")
    to_shape: tuple[int, ...] = Field(default=(), description="New shape, -1 for the rest, for reshape.")
    why: str = Field(default="", description="Reason, for drop.")

    @model_validator(mode="after")
    def _complete(self) -> TensorRule:
        if self.op == "rename" and not self.to:
            raise ValueError("rename needs `to`")
        check_pattern(self.from_, self.to)
        if self.op == "drop" and not self.why:
            raise ValueError("drop needs `why`")
        if self.op == "reshape" and not self.to_shape:
            raise ValueError("reshape needs `to_shape`")
        return self


class SideFile(_Strict):
    """A file beside the weights that holds a part of the drafter, in PyTorch's own format.

    Its tensors join the source's as `FILE:KEY` (`FILE:` for a file that is one tensor), so that tensor rules place
    them; its numbers and texts can be read as `side_files.STEM.KEY`.
    """

    file: str = Field(pattern=r"^[A-Za-z0-9_]+\.(pt|bin)$", description="Its name.")
    above: int = Field(default=0, ge=0, le=2, description="How many folders further up it is looked for.")
    unless: tuple[str, ...] = Field(default=(), description="Predicates: it is not needed where one holds.")

    @model_validator(mode="after")
    def _known_kind(self) -> SideFile:
        check_predicates(*self.unless)
        return self


class Refusal(_Strict):
    """A variant of the dialect that has no exact form in the output."""

    when: str = Field(description="A predicate, as in `match`.")
    code: str = Field(description="The rule that explains it.")
    why: str
    instead: str = Field(default="", description="What to do with it: a command that serves it, or an engine.")

    @model_validator(mode="after")
    def _known_kind(self) -> Refusal:
        check_predicates(self.when)
        return self


class Assumed(_Strict):
    """Something no file of this producer says; recorded and printed unless a predicate of `unless` holds."""

    field: str = Field(description="The field of `Drafter`.")
    value: str
    why: str
    unless: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _known_kind(self) -> Assumed:
        check_predicates(*self.unless)
        return self


class Fields(_Strict):
    """Where the fields of `Drafter` stand. A field left out has its plain value (no such head, scale 1)."""

    aux_layers: AuxLayers
    mask_token_id: Source
    slots: Source | None = None
    block_size: Source | None = None
    speculative_tokens: Source
    draft_vocab_size: Source | None = None
    target_hidden_size: Source | None = None
    verifier_layers: Source | None = None
    verifier: Source | None = None
    norm_before_residual: Source | None = None
    norm_before_fc: Source | None = None
    fc_norm: Source | None = None
    markov_rank: Source | None = None
    markov_type: Source | None = None
    confidence: Source | None = None
    confidence_with_markov: Source | None = None
    embedding_scale: Source | None = None
    logit_scale: Source | None = None
    value_scale: Source | None = None
    vocab_size: Source | None = Field(default=None, description="Left out: the decoder's key, or the tensors.")


class DialectFile(_Strict):
    """One dialect file of `converters/`."""

    dialect: str = Field(pattern=r"^(peagle|dflash|dspark)-[a-z0-9]+$", description="METHOD-PRODUCER.")
    title: str = Field(description="What people call it.")
    method: Method
    layout: Literal["native", "speculators", "foreign"] = Field(
        description="native: vLLM loads the folder itself; foreign: it has to be converted first."
    )
    evidence: Literal["engine-equal", "producer-code", "config-quoted", "inferred"]
    sources: tuple[str, ...] = Field(min_length=1, description="Where the statements of this file come from.")
    match: Match
    backbone: Backbone = Backbone()
    read: Fields
    attention: AttentionPolicy
    rope: RopePolicy
    side: tuple[SideFile, ...] = ()
    tensor: tuple[TensorRule, ...] = Field(min_length=1)
    assume: tuple[Assumed, ...] = ()
    refuse: tuple[Refusal, ...] = ()
