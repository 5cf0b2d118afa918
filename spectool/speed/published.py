"""Published tokens per round of public drafters, by workload (`spectool/data/speed/acceptance.json`)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from spectool.resources import package_data
from spectool.speed.tokens import shorten

# Highest over lowest data set of one drafter; four of five differ by less: inside one workload (47 pairs of drafter and
# workload with two or more data sets), and over all (26 drafters with three or more workloads).
_USUAL_IN_ONE = 1.3
_USUAL_IN_ALL = 1.9
WORKLOADS = ("chat", "code", "documents", "math", "tools", "translation")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens per round at `k`, bonus token included, from `low` to `high`; `basis` says where they come from.

    `widened`: too few data sets showed how much they differ.
    """

    low: float
    high: float
    k: int
    basis: str
    widened: bool = False

    def at(self, k: int) -> tuple[float, float]:
        """Return low and high for a smaller K.

        Raises:
            ValueError: `k` is above the one it was measured at.

        """
        return shorten(self.low, self.k, k), shorten(self.high, self.k, k)


@dataclass(frozen=True, slots=True)
class Row:
    """One published figure. `positions`: the share of all rounds in which each position was accepted, where known."""

    checkpoint: str
    k: int
    dataset: str
    workload: str
    tokens: float
    positions: tuple[float, ...] = ()


def given(tokens: float, k: int, basis: str) -> Tokens:
    """Return tokens per round that somebody measured or assumes.

    Raises:
        ValueError: not between 1 and k + 1.

    """
    if not 1.0 <= tokens <= k + 1.0:
        raise ValueError(f"tokens per round of K = {k} lie between 1 and {k + 1}, not at {tokens:g}")
    return Tokens(tokens, tokens, k, basis)


def published(names: Sequence[str], workload: str | None, least_k: int = 1) -> Tokens | None:
    """Return what is published of a drafter: lowest to highest over the data sets of a workload, or over all of them.

    Args:
        names: the drafter's: `org/name`, or a folder that is called like its repository.
        workload: one of `WORKLOADS`.
        least_k: figures of a smaller K say nothing about it.

    """
    rows = published_rows(names, workload, least_k)
    if not rows:
        return None
    k = rows[0].k
    low, high = min(row.tokens for row in rows), max(row.tokens for row in rows)
    sets = sorted({row.dataset for row in rows})
    shown = ", ".join(sets[:4]) + (f" and {len(sets) - 4} more" if len(sets) > 4 else "")
    basis = f"published at K = {k} for {workload or 'any workload'} ({shown})"
    usual = _USUAL_IN_ONE if workload else _USUAL_IN_ALL
    few = len({row.dataset for row in rows} if workload else {row.workload for row in rows}) < (2 if workload else 3)
    if few:
        # Too few data sets to show how much they differ: as wide as those of other drafters, around their middle.
        wider = math.sqrt(max(usual, high / low) / (high / low))
        low, high = max(1.0, low / wider), min(k + 1.0, high * wider)
        basis += f", widened: data sets usually differ by {usual:g}"
    return Tokens(low, high, k, basis, few)


def published_rows(names: Sequence[str], workload: str | None, least_k: int = 1) -> list[Row]:
    """Return the figures `published` goes by: those of the largest K, if it is `least_k` at least."""
    wanted = {name.lower().replace("--", "/") for name in names}
    rows = [row for row in _rows() if row.k >= least_k and workload in (None, row.workload)]
    rows = [row for row in rows if {row.checkpoint, row.checkpoint.rpartition("/")[2]} & wanted]
    most = max((row.k for row in rows), default=0)
    return [row for row in rows if row.k == most]


@cache
def _rows() -> tuple[Row, ...]:
    document = json.loads(package_data("speed", "acceptance.json").read_text(encoding="utf-8"))
    return tuple(
        Row(
            row["checkpoint"].lower(),
            row["k"],
            row["dataset"],
            row["workload"],
            row["tokens"],
            tuple(row.get("positions", ())),
        )
        for row in document["rows"]
    )
