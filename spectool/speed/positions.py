"""Which share of the rounds each position of a draft is expected to be accepted in: published, or from a length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectool.speed.published import Tokens, published, published_rows
from spectool.speed.tokens import acceptance_of


@dataclass(frozen=True, slots=True)
class Positions:
    """From `low` to `high` (0 to 1), first position first; `basis` says where they come from."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    basis: str

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """Low and high of each position."""
        return tuple(zip(self.low, self.high, strict=True))


def of_length(tokens: float, measured_k: int, k: int) -> tuple[float, ...]:
    """Return the shares that an acceptance alike at every position gives: its powers.

    Args:
        tokens: per round, bonus token included, measured with `measured_k` drafts.
        measured_k: at least `k`.
        k: positions wanted.

    Raises:
        ValueError: `tokens` is impossible for `measured_k`.

    """
    one = acceptance_of(tokens, measured_k)
    return tuple(one**place for place in range(1, k + 1))


def of_tokens(tokens: Tokens, k: int) -> Positions:
    """Return the shares of the first `k` positions, from tokens per round.

    Raises:
        ValueError: they were measured with fewer drafts than `k`.

    """
    if k > tokens.k:
        raise ValueError(f"K = {k} is above the measured {tokens.k}")
    low, high = of_length(tokens.low, tokens.k, k), of_length(tokens.high, tokens.k, k)
    return Positions(low, high, f"from {_span(tokens)} tokens per round, alike at every position: {tokens.basis}")


def published_positions(names: Sequence[str], workload: str | None, k: int) -> Positions | None:
    """Return the shares published of a drafter, lowest to highest over its data sets; None where nothing is known.

    A data set of which only the length was published counts with an acceptance alike at every position. Where too few
    data sets show how much they differ, the widened lengths of `published` decide.

    Args:
        names: the drafter's, as `published` takes them.
        workload: one of `published.WORKLOADS`; all of them where none is given.
        k: positions wanted; figures of a smaller K say nothing about it.

    """
    found = published(names, workload, k)
    if found is None or k < 1:
        return None
    if found.widened:
        return of_tokens(found, k)
    shares = [
        row.positions[:k] if row.positions else of_length(row.tokens, row.k, k)
        for row in published_rows(names, workload, k)
    ]
    return Positions(
        tuple(min(column) for column in zip(*shares, strict=True)),
        tuple(max(column) for column in zip(*shares, strict=True)),
        found.basis,
    )


def _span(tokens: Tokens) -> str:
    return f"{tokens.low:.2f}" if tokens.low == tokens.high else f"{tokens.low:.2f} to {tokens.high:.2f}"
