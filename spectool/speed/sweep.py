"""Which points a sweep measures, in which order, within which bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from spectool.errors import UsageError

MOST_POINTS = 64
_COUNTS = re.compile(r"\d+(,\d+)*")


def counts(text: str, option: str, least: int) -> tuple[int, ...]:
    """Read `1,4,16`.

    Raises:
        UsageError: it is no list of whole numbers from `least` on.

    """
    if not _COUNTS.fullmatch(text) or len(text) > 200 or min(map(int, text.split(","))) < least:
        raise UsageError(f"{option} {text}: write whole numbers from {least} on, such as 1,4,16")
    return tuple(sorted(set(map(int, text.split(",")))))


def points(ks: Iterable[int], loads: Sequence[int], planned: int, most: int) -> list[tuple[int, int]]:
    """Return (K, requests) in the order to measure: the verifier alone first, then the planned K, then the others.

    Cut at `most`, this still leaves what can be compared.

    Raises:
        UsageError: a K is above the planned one, which is the most the drafter was trained for.

    """
    above = [k for k in ks if k > planned]
    if above:
        raise UsageError(f"K = {above[0]} is above {planned}, the most this drafter drafts")
    order = [0, planned, *sorted({k for k in ks if 0 < k < planned}, reverse=True)]
    return [(k, load) for k in order for load in loads][: max(1, min(most, MOST_POINTS))]
