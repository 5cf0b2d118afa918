"""The speed range of a drafter on given GPUs, by load and K, with its basis; or why none is predicted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spectool.speed.costs import Draft, Machine, Target, slowdown
from spectool.speed.evidence import Evidence, Kind, evidence
from spectool.speed.published import Tokens

LOADS = (1, 2, 4, 8, 16, 32)
# Tokens in a request's cache on average; the published points were at 700 to 2000.
CONTEXT = 1000


class NotPredictedError(Exception):
    """The evidence does not carry; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Range:
    """An 80 % range of the speed-up over the verifier alone, at so many requests and drafts."""

    requests: int
    k: int
    low: float
    centre: float
    high: float


@dataclass(frozen=True, slots=True)
class Case:
    """What is served: both models and the GPUs they run on."""

    machine: Machine
    target: Target
    draft: Draft
    context: float = CONTEXT

    @property
    def kind(self) -> Kind:
        """Kind of verifier."""
        return "dense" if self.target.experts is None else "moe"

    def pays_from(self, requests: int, k: int, known: Evidence | None = None) -> float:
        """Return the tokens per round at which it is as fast as the verifier alone."""
        found = known or evidence()
        return slowdown(self.machine, self.target, self.draft, requests, k, self.context, found.constants)


def range_at(case: Case, tokens: Tokens, requests: int, k: int, known: Evidence | None = None) -> Range:
    """Return the range at one load and K; exactly 1 at K = 0.

    The widths of tokens per round and of the cost model are independent, so their logarithms add as squares.

    Raises:
        NotPredictedError: nothing was learned of this kind of verifier at this load.
        ValueError: `k` is above that of `tokens`.

    """
    if k == 0:
        return Range(requests, 0, 1.0, 1.0, 1.0)
    found = known or evidence()
    if requests > most_requests(case.kind, found):
        raise NotPredictedError(why_not(case.kind, found))
    low, high = tokens.at(k)
    centre = math.sqrt(low * high) / case.pays_from(requests, k, found)
    half = math.hypot(math.log(high / low) / 2, found.half)
    return Range(requests, k, centre * math.exp(-half), centre, centre * math.exp(half))


def most_requests(kind: Kind, known: Evidence | None = None) -> float:
    """Return the largest load that is predicted for a kind of verifier; 0 where none is."""
    found = known or evidence()
    return max((most for (of, _), most in found.cells.items() if of == kind), default=0.0)


def why_not(kind: Kind, known: Evidence | None = None) -> str:
    """Say what ends the prediction."""
    name = {"dense": "a dense verifier", "moe": "a mixture of experts"}[kind]
    most = most_requests(kind, known)
    if most == 0:
        return f"the range for {name} missed its evaluation (docs/speed.md)"
    return f"nothing published bears out a range for {name} above {math.floor(most)} requests (docs/speed.md)"


def ranges(
    case: Case, tokens: Tokens, ks: Sequence[int], most: int | None = None, known: Evidence | None = None
) -> list[Range]:
    """Return all ranges that are predicted, by load and K; loads up to `most`."""
    limit = min(most_requests(case.kind, known), most or math.inf)
    return [range_at(case, tokens, load, k, known) for load in LOADS if load <= limit for k in ks]


def best_k(case: Case, tokens: Tokens, requests: int, most: int, known: Evidence | None = None) -> int:
    """Return the K, from 0 to `most`, with the highest centre; the smallest of equals."""
    return max(range(most + 1), key=lambda k: (range_at(case, tokens, requests, k, known).centre, -k))
