"""What a drafter *is*, apart from any file layout and any engine.

A trainer's reading (`spectool.dialects`) and an engine's reading (`spectool.engine.reading`) both end in a `Drafter`;
everything else follows from comparing the two. This module imports nothing of spectool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["peagle", "dflash", "dspark"]
SlotLayout = Literal["anchor-first", "bonus-anchor"]
METHODS: tuple[Method, ...] = ("peagle", "dflash", "dspark")

ZERO = "zero"

TITLES: dict[str, str] = {"peagle": "P-EAGLE", "dflash": "DFlash", "dspark": "DSpark"}


@dataclass(frozen=True, slots=True)
class Attention:
    """How one draft layer attends: `window` in tokens (None: all), `causal` inside the drafted block."""

    window: int | None
    causal: bool

    def __str__(self) -> str:
        reach = "full" if self.window is None else f"window {self.window}"
        return f"{reach}, {'causal' if self.causal else 'bidirectional'}"


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding of the drafter's own queries and keys.

    `rotary_dim` counts rotated dimensions per head; `scaling` holds what is not plain rope, as sorted (key, value)
    pairs with `rope_type` among them, empty for the default type; `interleaved` is vLLM's `is_neox_style: false`.
    """

    theta: float
    rotary_dim: int
    scaling: tuple[tuple[str, object], ...] = ()
    interleaved: bool = False

    def __str__(self) -> str:
        kind = dict(self.scaling).get("rope_type", "default")
        layout = ", interleaved" if self.interleaved else ""
        extra = ", ".join(f"{key} {value}" for key, value in self.scaling if key != "rope_type")
        return f"{kind}, theta {self.theta:.12g}, {self.rotary_dim} dims rotated{layout}" + (
            f", {extra}" if extra else ""
        )


@dataclass(frozen=True, slots=True)
class Markov:
    """DSpark's sequential head: `kind` vanilla, gated, rnn or zero; `rank` of the low-rank transition bias.

    A `zero` head is a vanilla one whose weights are all zero: it is in the file and changes no logit.
    """

    kind: str
    rank: int

    def __str__(self) -> str:
        return "-" if self.kind == ZERO else f"{self.kind}, rank {self.rank}"


@dataclass(frozen=True, slots=True)
class Confidence:
    """DSpark's acceptance estimate; `with_markov`: its input is [hidden ; Markov embedding], else hidden alone."""

    with_markov: bool

    def __str__(self) -> str:
        return "hidden and Markov embedding" if self.with_markov else "hidden state alone"


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes that tensors must have. `target_hidden_size` is the width of one aux layer's hidden state."""

    hidden_size: int
    target_hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int

    def __str__(self) -> str:
        vocabulary = f"{self.vocab_size}"
        if self.draft_vocab_size != self.vocab_size:
            vocabulary = f"{self.draft_vocab_size} of {self.vocab_size}"
        return (
            f"{self.num_layers} layers, hidden {self.hidden_size} (target {self.target_hidden_size}), "
            f"mlp {self.intermediate_size}, heads {self.num_heads}/{self.num_kv_heads} x {self.head_dim}, "
            f"vocabulary {vocabulary}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafter:
    """One drafter. None where neither file nor convention says (a gap that rules report) or where it has no meaning.

    `aux_layers` are *input ids* (0: embedding, t+1: after layer t), in the order of `fc`'s column blocks.
    `speculative_tokens` is K: how many tokens one pass proposes.
    """

    method: Method
    aux_layers: tuple[int, ...] | None
    slots: SlotLayout | None
    block_size: int | None
    speculative_tokens: int | None
    mask_token_id: int | None
    dimensions: Dimensions
    attention: tuple[Attention, ...]
    rope: Rope | None
    qk_norm: bool
    rms_norm_eps: float
    activation: str = "silu"
    norm_before_residual: bool | None = None
    norm_before_fc: bool = False
    fc_norm: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    sinks: bool = False
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    value_scale: float = 1.0
    markov: Markov | None = None
    confidence: Confidence | None = None
    max_position_embeddings: int | None = None

    @property
    def headless(self) -> bool:
        """Whether nothing but the decoder makes the drafts: then DFlash and DSpark differ in `slots` alone."""
        bare = self.markov is None or self.markov.kind == ZERO
        return self.method != "peagle" and bare and self.confidence is None

    @property
    def most_tokens(self) -> int | None:
        """The largest K the drafter was trained for, from block and slot layout; None where the block is not known."""
        if self.block_size is None or self.slots is None:
            return None
        return self.block_size if self.slots == "anchor-first" else self.block_size - 1
