"""What one decoding step and one speculative round cost, in seconds.

Bytes over bandwidth, operations over arithmetic, and overheads fitted to published measurements
(`spectool/data/speed/constants.json`, by `make evaluation`).

With B requests, K drafts and n = B (K + 1) tokens to verify:

    step(n)    = layers * tau + hypot(bytes(n) / bandwidth, 2 n active / (arithmetic * phi)) + caches + all-reduce
    round      = step(n) + draft + overhead
    speed-up   = tokens per round * step(B) / round

A mixture of experts reads E (1 - (1 - k/E)^(0.8 n)) of its E experts: each token chooses k, and 0.8 stands for the
skew of real routing. The roofline with a root of squares is the usual smooth form; the shares of bandwidth and
arithmetic by GPU come from kernel timings (`spectool/data/speed/machines.json`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_SKEW = 0.8
_EXPERT_BANDWIDTH = 0.83  # of the peak, in grouped GEMMs; same timings as the machines' shares
_MARKOV_STEP = 12e-6  # seconds a position of DSpark's sequential head; at most 1.3 % of a round (DSpark paper, Fig. 4)
_ACTIVATION = 2  # bytes of one element in an all-reduce


@dataclass(frozen=True, slots=True)
class Machine:
    """One GPU of `ranks` equal ones, peak `bandwidth` in bytes/s, `arithmetic` in 16-bit FLOP/s without sparsity.

    `link` holds seconds and seconds per byte of one all-reduce; None on a single GPU.
    """

    bandwidth: float
    arithmetic: float
    bandwidth_share: float
    arithmetic_share: float
    ranks: int = 1
    link: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts: `layers` hold `count` each, a token goes through `active` of them.

    `speed` is how much faster than in 16 bits they compute: 2 where weights and activations are 8 bits wide or less.
    """

    layers: int
    count: int
    active: int
    parameters: float
    bytes_per_parameter: float = 2.0
    speed: float = 1.0

    def read(self, tokens: float) -> float:
        """Return how many of a layer's experts so many tokens reach: `active` for one token, at most `count`."""
        reached = self.count * (1.0 - math.pow(1.0 - self.active / self.count, max(1.0, _SKEW * tokens)))
        return min(float(self.count), reached)


@dataclass(frozen=True, slots=True)
class Target:
    """The verifier. `parameters` are those every token reads (output layer included, embedding and experts not)."""

    layers: int
    hidden: int
    parameters: float
    cache_bytes: float
    experts: Experts | None = None
    hybrid: bool = False
    bytes_per_parameter: float = 2.0


@dataclass(frozen=True, slots=True)
class Draft:
    """The drafter. `serial`: one pass a token (EAGLE-3), else one pass for all; `markov`: DSpark's sequential head."""

    layers: int
    parameters: float
    serial: bool = False
    markov: bool = False


@dataclass(frozen=True, slots=True)
class Constants:
    """What is fitted: seconds, and the share of the arithmetic that is left by everything but large GEMMs.

    A round costs more than its passes: logits, sampling and copies on the GPU (`round_bytes` over its bandwidth), and
    what the host does meanwhile without overlap (`host`; nothing in vLLM, whose scheduler runs ahead of the GPU).

    `expert_token` is what one token costs in one layer of experts beyond its operations: routing, sorting, gathering.
    """

    layer: float
    expert_layer: float
    serial_step: float
    round_bytes: float
    host: float
    hybrid_round: float
    hybrid_token: float
    arithmetic: float
    expert_token: float


def step(machine: Machine, target: Target, tokens: float, requests: float, context: float, fitted: Constants) -> float:
    """Return the seconds of one pass over `tokens` tokens of `requests` requests, each `context` long."""
    bandwidth = machine.ranks * machine.bandwidth * machine.bandwidth_share
    arithmetic = machine.ranks * machine.arithmetic * machine.arithmetic_share
    reading = target.parameters * target.bytes_per_parameter / bandwidth
    computing = 2.0 * tokens * target.parameters / (arithmetic * fitted.arithmetic)
    layer, routing = fitted.layer, 0.0
    if target.experts is not None:
        experts = target.experts
        layer = fitted.expert_layer
        size = experts.layers * experts.parameters
        reading += (
            size
            * experts.read(tokens)
            * experts.bytes_per_parameter
            / (machine.ranks * machine.bandwidth * _EXPERT_BANDWIDTH)
        )
        computing += 2.0 * tokens * size * experts.active / (arithmetic * experts.speed * fitted.arithmetic)
        routing = experts.layers * tokens * fitted.expert_token
    caches = requests * context * target.cache_bytes / bandwidth
    layers = target.layers * (layer + _reduce(machine, tokens, target.hidden))
    return layers + math.hypot(reading, computing) + routing + caches


def draft(machine: Machine, target: Target, drafter: Draft, requests: float, k: int, fitted: Constants) -> float:
    """Return the seconds the drafter needs for `k` tokens of each request."""
    reading = 2.0 * drafter.parameters / (machine.ranks * machine.bandwidth * machine.bandwidth_share)
    arithmetic = machine.ranks * machine.arithmetic * machine.arithmetic_share * fitted.arithmetic
    passes, tokens = (k, requests) if drafter.serial else (1, requests * (k + 1))
    computing = 2.0 * tokens * drafter.parameters / arithmetic
    layers = drafter.layers * (fitted.layer + _reduce(machine, tokens, target.hidden))
    one = layers + math.hypot(reading, computing) + (fitted.serial_step if drafter.serial else 0.0)
    return passes * one + (k * _MARKOV_STEP if drafter.markov else 0.0)


def slowdown(
    machine: Machine, target: Target, drafter: Draft, requests: float, k: int, context: float, fitted: Constants
) -> float:
    """Return how many ordinary steps one round costs; tokens per round over this is the speed-up. 1 at K = 0."""
    if k == 0:
        return 1.0
    tokens = requests * (k + 1)
    cost = step(machine, target, tokens, requests, context, fitted)
    cost += draft(machine, target, drafter, requests, k, fitted) + fitted.round_bytes / machine.bandwidth + fitted.host
    if target.hybrid:
        cost += fitted.hybrid_round + fitted.hybrid_token * tokens
    return cost / step(machine, target, requests, requests, context, fitted)


def _reduce(machine: Machine, tokens: float, hidden: int) -> float:
    """Return the seconds of a layer's two all-reduces."""
    if machine.ranks == 1 or machine.link is None:
        return 0.0
    latency, per_byte = machine.link
    return 2.0 * (latency + per_byte * tokens * hidden * _ACTIVATION)
