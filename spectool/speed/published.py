"""Published tokens per round of public drafters, by workload (`spectool/data/speed/acceptance.json`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from spectool.resources import package_data
from spectool.speed.tokens import shorten

WORKLOADS = ("chat", "code", "documents", "math", "tools", "translation")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens per round at `k`, bonus token included, from `low` to `high`; `basis` says where they come from."""

    low: float
    high: float
    k: int
    basis: str

    def at(self, k: int) -> tuple[float, float]:
        """Return low and high for a smaller K.

        Raises:
            ValueError: `k` is above the one it was measured at.

        """
        return shorten(self.low, self.k, k), shorten(self.high, self.k, k)


@dataclass(frozen=True, slots=True)
class _Row:
    checkpoint: str
    k: int
    dataset: str
    workload: str
    tokens: float


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
    wanted = {name.lower().replace("--", "/") for name in names}
    rows = [row for row in _rows() if row.k >= least_k and workload in (None, row.workload)]
    rows = [row for row in rows if {row.checkpoint, row.checkpoint.rpartition("/")[2]} & wanted]
    if not rows:
        return None
    k = max(row.k for row in rows)
    values = [row.tokens for row in rows if row.k == k]
    sets = sorted({row.dataset for row in rows if row.k == k})
    shown = ", ".join(sets[:4]) + (f" and {len(sets) - 4} more" if len(sets) > 4 else "")
    what = workload or "any workload"
    return Tokens(min(values), max(values), k, f"published at K = {k} for {what} ({shown})")


@cache
def _rows() -> tuple[_Row, ...]:
    document = json.loads(package_data("speed", "acceptance.json").read_text(encoding="utf-8"))
    return tuple(
        _Row(row["checkpoint"].lower(), row["k"], row["dataset"], row["workload"], row["tokens"])
        for row in document["rows"]
    )
