"""The dialect file: how one producer stores one method, as data.

A dialect file says where each field of `Drafter` stands, in which convention, and what absence means: a value, a named
default, or a question to the user. Reading it is `spectool.dialects.read`; writing is never described here.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spectool.drafter.model import Method

NamedDefault = Literal["eagle3-default", "from-block", "from-tokens", "from-tensors", "vocab-size", "verifier-family"]
Direction = Literal["causal", "bidirectional"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Match(_Strict):
    """Which folders this dialect is. Predicates: `arch:NAME`, `key:a.b`, `key:a.b=value`, `tensor:REGEX` (search)."""

    all: tuple[str, ...] = Field(min_length=1, description="Every one must hold.")
    none: tuple[str, ...] = Field(default=(), description="None may hold.")

    @model_validator(mode="after")
    def _known_kinds(self) -> Match:
        for predicate in (*self.all, *self.none):
            kind, _, rest = predicate.partition(":")
            if kind not in {"arch", "key", "tensor"} or not rest:
                raise ValueError(f"unknown predicate {predicate!r}: use arch:, key: or tensor:")
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


class Backbone(_Strict):
    """Where the decoder's own configuration stands and what decides its kind."""

    under: str = Field(default="", description="Dotted key of the decoder's configuration; empty: top level.")
    qk_norm: Literal["always", "from-tensors"] = "always"


class AttentionPolicy(_Strict):
    """What the producer trains per layer type, and the keys that override it."""

    full: Direction
    sliding: Direction
    causal: tuple[str, ...] = Field(default=(), description="Keys that set causality for all layers.")
    sliding_bidirectional: tuple[str, ...] = Field(default=(), description="Flags that free the sliding layers.")


class RopePolicy(_Strict):
    """`full-width`: the producer's rotary class rotates whole heads whatever the file says; `as-written`: obeys it."""

    policy: Literal["full-width", "as-written"]


class TensorRule(_Strict):
    """What becomes of tensors whose whole name matches; the first matching rule wins."""

    from_: str = Field(alias="from", description="Regular expression, matched against the whole name.")
    op: Literal["keep", "rename", "drop", "reshape", "vocabulary"]
    to: str = Field(default="", description="New name, with \\1 groups, for rename.")
    to_shape: tuple[int, ...] = Field(default=(), description="New shape, -1 for the rest, for reshape.")
    why: str = Field(default="", description="Reason, for drop.")

    @model_validator(mode="after")
    def _complete(self) -> TensorRule:
        if self.op == "rename" and not self.to:
            raise ValueError("rename needs `to`")
        if self.op == "drop" and not self.why:
            raise ValueError("drop needs `why`")
        if self.op == "reshape" and not self.to_shape:
            raise ValueError("reshape needs `to_shape`")
        return self


class Refusal(_Strict):
    """A variant of the dialect that has no exact form in the output."""

    when: str = Field(description="A predicate, as in `match`.")
    code: str = Field(description="The rule that explains it.")
    why: str


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
    tensor: tuple[TensorRule, ...] = Field(min_length=1)
    refuse: tuple[Refusal, ...] = ()
