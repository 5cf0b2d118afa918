"""Tokens per round as a function of K, from one figure: an acceptance that is the same at every position.

`1 + a + a^2 + ... + a^K`, solved for a at the published K. On published rates by position it gives the value at K = 3
within 5 % (from K = 7 or 8); above the K it was measured at, nothing supports it, and it is never asked.
"""

from __future__ import annotations

from functools import cache

_HALVINGS = 60


def tokens_at(acceptance: float, k: int) -> float:
    """Return tokens per round, bonus token included, of `k` drafts that are each accepted with this probability."""
    total = power = 1.0
    for _ in range(k):
        power *= acceptance
        total += power
    return total


@cache  # a plan asks for every K and load, from the same one or two figures
def acceptance_of(tokens: float, k: int) -> float:
    """Return the acceptance by position that makes `tokens` of `k` drafts.

    Raises:
        ValueError: `tokens` is not between 1 and k + 1.

    """
    if not 1.0 <= tokens <= k + 1.0:
        raise ValueError(f"tokens per round of K = {k} lie between 1 and {k + 1}, not at {tokens:g}")
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if tokens_at(middle, k) < tokens:
            low = middle
        else:
            high = middle
    return high


def shorten(tokens: float, measured_k: int, k: int) -> float:
    """Return tokens per round at `k` from those at `measured_k`.

    Raises:
        ValueError: `k` is above `measured_k`, or `tokens` impossible.

    """
    if k > measured_k:
        raise ValueError(f"K = {k} is above the measured {measured_k}")
    return tokens if k == measured_k else tokens_at(acceptance_of(tokens, measured_k), k)
