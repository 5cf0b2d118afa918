"""One forward pass of the three drafters in plain torch, in double precision.

It knows no file and no key: `as_trained.py` fills a `Drafter` from a producer's folder by that producer's
conventions, `as_served.py` from a Speculators folder by vLLM's, and what both then compute has to be equal. Runs under
any interpreter with torch; spectool is not imported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

CONTEXT = 80  # tokens already accepted: more than the windows of the fixtures
DOUBLE = torch.float64


@dataclass(frozen=True)
class Rope:
    """Rotary embedding: one frequency per pair of the first `2 * len(frequencies)` dimensions."""

    frequencies: Tensor
    amplitude: float = 1.0
    interleaved: bool = False


@dataclass
class Layer:
    """One decoder layer. `weights` has the names inside a layer, as Hugging Face's Qwen3 and Llama spell them."""

    weights: dict[str, Tensor]
    window: int | None
    causal: bool

    def linear(self, name: str, rows: Tensor) -> Tensor:
        return torch.nn.functional.linear(
            rows, self.weights[f"{name}_proj.weight"], self.weights.get(f"{name}_proj.bias")
        )


@dataclass
class Drafter:
    """What a drafter computes with.

    `taps` are input ids (0: the embedding, n: after layer n - 1) in the order of `fc`'s column blocks. `embedding` and
    `head` are what the drafter sees: its own or the verifier's, scaled. `targets` maps draft to verifier ids.
    `block` counts the rows of a block (DFlash, DSpark), `skip` those that predict nothing; `depth` is P-EAGLE's K.
    """

    taps: list[int]
    layers: list[Layer]
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    rope: Rope
    embedding: Tensor
    head: Tensor
    norm: Tensor
    fc: Tensor
    mask_token: int
    block: int = 0
    skip: int = 0
    depth: int = 0
    targets: Tensor | None = None
    hidden_norm: Tensor | None = None
    mask_row: Tensor | None = None
    value_scale: float = 1.0
    logit_scale: float = 1.0
    markov: tuple[Tensor, Tensor] | None = None
    confidence: tuple[Tensor, Tensor, bool] | None = None
    mask_hidden: Tensor | None = None
    norm_before_residual: bool = False
    input_norm: Tensor | None = None
    fc_norms: list[Tensor] = field(default_factory=list)

    def embed(self, tokens: Tensor) -> Tensor:
        rows = self.embedding[tokens]
        return rows if self.mask_row is None else torch.where((tokens == self.mask_token)[:, None], self.mask_row, rows)


@dataclass(frozen=True)
class Drafted:
    """What one step gives: logits of K rows over the draft vocabulary, K verifier ids, K confidences (or none)."""

    logits: Tensor
    tokens: Tensor
    confidence: Tensor


@dataclass(frozen=True)
class Situation:
    """Random input: a verifier's residual stream per boundary [depth + 1][CONTEXT, width], and tokens [CONTEXT + 1]."""

    states: list[Tensor]
    tokens: Tensor

    @staticmethod
    def random(depth: int, width: int, vocabulary: int, seed: int) -> Situation:
        source = torch.Generator().manual_seed(seed)
        states = [torch.randn(CONTEXT, width, dtype=DOUBLE, generator=source) for _ in range(depth + 1)]
        return Situation(states, torch.randint(0, vocabulary, (CONTEXT + 1,), generator=source))


def rms(rows: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Root mean square norm over the last dimension."""
    return rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def rotate(rows: Tensor, positions: Tensor, rope: Rope) -> Tensor:
    """Rotate [tokens, heads, head_dim] by position; dimensions beyond the frequencies stay."""
    pairs = len(rope.frequencies)
    angles = positions[:, None].to(DOUBLE) * rope.frequencies
    cosine, sine = (item[:, None] * rope.amplitude for item in (angles.cos(), angles.sin()))
    turned, rest = rows[..., : 2 * pairs], rows[..., 2 * pairs :]
    if rope.interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., :pairs], turned[..., pairs:]
    one, two = first * cosine - second * sine, second * cosine + first * sine
    joined = torch.stack((one, two), -1).flatten(-2) if rope.interleaved else torch.cat((one, two), -1)
    return torch.cat((joined, rest), -1)


def attend(drafter: Drafter, layer: Layer, rows: Tensor, positions: Tensor, context: Tensor | None = None) -> Tensor:
    """Attention of `rows` over themselves and, where given, over keys and values made from `context` before them."""
    sources = [rows] if context is None else [context, rows]
    query = layer.linear("self_attn.q", rows).unflatten(-1, (drafter.heads, drafter.head_dim))
    key, value = (
        torch.cat([layer.linear(f"self_attn.{part}", item) for item in sources]).unflatten(
            -1, (drafter.kv_heads, drafter.head_dim)
        )
        for part in "kv"
    )
    if "self_attn.q_norm.weight" in layer.weights:
        query = rms(query, layer.weights["self_attn.q_norm.weight"], drafter.epsilon)
        key = rms(key, layer.weights["self_attn.k_norm.weight"], drafter.epsilon)
    before = len(key) - len(rows)
    places = torch.cat((torch.arange(before), positions))
    query, key = rotate(query, positions, drafter.rope), rotate(key, places, drafter.rope)
    group = drafter.heads // drafter.kv_heads
    key, value = key.repeat_interleave(group, 1), (value * drafter.value_scale).repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", query, key) / math.sqrt(drafter.head_dim)
    distance = positions[:, None] - places[None, :]
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if layer.causal:
        hidden |= distance < 0
    if layer.window is not None:
        hidden |= distance >= layer.window
    scores = scores.masked_fill(hidden, -math.inf)
    sinks = layer.weights.get("self_attn.attention_sink_bias")
    if sinks is not None:  # a score of its own per head that takes weight and gives no value
        scores = torch.cat((scores, sinks[:, None, None].expand(-1, len(rows), 1)), -1)
    weights = scores.softmax(-1)[..., : len(key)]
    mixed = torch.einsum("hqk,khd->qhd", weights, value).flatten(-2)
    return layer.linear("self_attn.o", mixed)


def feed(layer: Layer, rows: Tensor) -> Tensor:
    """The gated MLP."""
    gate, up = layer.linear("mlp.gate", rows), layer.linear("mlp.up", rows)
    return layer.linear("mlp.down", torch.nn.functional.silu(gate) * up)


def chained(drafter: Drafter, hidden: Tensor, anchor: int) -> Drafted:
    """From final hidden states to drafts: base logits, then left to right the Markov head's bias on the last token."""
    base = hidden @ drafter.head.T * drafter.logit_scale
    targets = torch.arange(len(drafter.head)) if drafter.targets is None else drafter.targets
    logits, tokens, confidences = [], [], []
    last = anchor
    for row, state in zip(base, hidden, strict=True):
        embedded = None
        corrected = row
        if drafter.markov is not None:
            embedded = drafter.markov[0][last]
            corrected = row + drafter.markov[1] @ embedded * drafter.logit_scale
        if drafter.confidence is not None:
            weight, bias, with_markov = drafter.confidence
            assert embedded is not None or not with_markov
            seen = torch.cat((state, embedded)) if with_markov and embedded is not None else state
            confidences.append(torch.sigmoid(weight[0] @ seen + bias[0]))
        last = int(targets[corrected.argmax()])
        logits.append(corrected)
        tokens.append(last)
    return Drafted(
        torch.stack(logits), torch.tensor(tokens), torch.stack(confidences) if confidences else torch.zeros(0)
    )


def draft_block(drafter: Drafter, situation: Situation) -> Drafted:
    """DFlash and DSpark: a block [anchor, mask, ...] over keys and values made from the verifier's hidden states."""
    assert drafter.hidden_norm is not None
    taps = torch.cat([situation.states[tap] for tap in drafter.taps], -1)
    context = rms(taps @ drafter.fc.T, drafter.hidden_norm, drafter.epsilon)
    anchor = int(situation.tokens[-1])
    tokens = torch.full((drafter.block,), drafter.mask_token)
    tokens[0] = anchor
    positions = torch.arange(CONTEXT, CONTEXT + drafter.block)
    rows = drafter.embed(tokens)
    for layer in drafter.layers:
        normed = rms(rows, layer.weights["input_layernorm.weight"], drafter.epsilon)
        rows = rows + attend(drafter, layer, normed, positions, context)
        rows = rows + feed(layer, rms(rows, layer.weights["post_attention_layernorm.weight"], drafter.epsilon))
    hidden = rms(rows, drafter.norm, drafter.epsilon)
    return chained(drafter, hidden[drafter.skip :], anchor)


def combined(drafter: Drafter, rows: Tensor) -> Tensor:
    """P-EAGLE: hidden states of all aux layers side by side, or `mask_hidden`, to the drafter's width."""
    if drafter.input_norm is not None:
        rows = rms(rows, drafter.input_norm, drafter.epsilon)
    if drafter.fc_norms:
        chunks = rows.chunk(len(drafter.fc_norms), -1)
        rows = torch.cat(
            [rms(chunk, norm, drafter.epsilon) for chunk, norm in zip(chunks, drafter.fc_norms, strict=True)], -1
        )
    return rows @ drafter.fc.T


def draft_parallel(drafter: Drafter, situation: Situation) -> Drafted:
    """P-EAGLE: each context row sees the token after it; K - 1 rows of mask token and `mask_hidden` follow."""
    assert drafter.mask_hidden is not None
    taps = torch.cat([situation.states[tap] for tap in drafter.taps], -1)
    masks = drafter.depth - 1
    seen = torch.cat((taps, drafter.mask_hidden.reshape(1, -1).expand(masks, -1)))
    tokens = torch.cat((situation.tokens[1:], torch.full((masks,), drafter.mask_token)))
    rows, embedded = combined(drafter, seen), drafter.embed(tokens)
    positions = torch.arange(len(rows))
    first = drafter.layers[0]
    normed = rms(rows, first.weights["hidden_norm.weight"], drafter.epsilon)
    left = rms(embedded, first.weights["input_layernorm.weight"], drafter.epsilon)
    rows = normed if drafter.norm_before_residual else rows
    attended = torch.cat((left, normed), -1)
    for layer in drafter.layers:
        if layer is not first:
            attended = rms(rows, layer.weights["input_layernorm.weight"], drafter.epsilon)
        rows = rows + attend(drafter, layer, attended, positions)
        rows = rows + feed(layer, rms(rows, layer.weights["post_attention_layernorm.weight"], drafter.epsilon))
    return chained(drafter, rms(rows, drafter.norm, drafter.epsilon)[CONTEXT - 1 :], 0)


def draft(drafter: Drafter, situation: Situation) -> Drafted:
    """One step of any of the three methods."""
    return draft_block(drafter, situation) if drafter.block else draft_parallel(drafter, situation)


def plain(theta: float, width: int) -> Tensor:
    """Frequencies of plain rope over `width` dimensions."""
    return theta ** -(torch.arange(0, width, 2, dtype=DOUBLE) / width)


def yarn(theta: float, width: int, factor: float, length: float, fast: float = 32.0, slow: float = 1.0) -> Tensor:
    """Frequencies of yarn (Peng et al. 2023, section 3.2): interpolated where fewer than `slow` turns fit `length`."""
    exact = plain(theta, width)
    turns = [width * math.log(length / (count * 2 * math.pi)) / (2 * math.log(theta)) for count in (fast, slow)]
    low, high = max(math.floor(turns[0]), 0), min(math.ceil(turns[1]), width - 1)
    ramp = ((torch.arange(width // 2, dtype=DOUBLE) - low) / (high - low if high != low else 0.001)).clamp(0, 1)
    return exact / factor * ramp + exact * (1 - ramp)


def llama3(theta: float, width: int, factor: float, low: float, high: float, length: float) -> Tensor:
    """Frequencies of Llama 3.1's rope: waves longer than `length / low` divided by `factor`, smooth down to `high`."""
    exact = plain(theta, width)
    waves = 2 * math.pi / exact
    smooth = ((length / waves - low) / (high - low)).clamp(0, 1)
    return exact / factor * (1 - smooth) + exact * smooth


def yarn_amplitude(factor: float, scale: float = 1.0) -> float:
    """Yarn's temperature as a factor on queries and keys."""
    return 0.1 * scale * math.log(factor) + 1.0
