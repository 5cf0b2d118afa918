"""Files of which only a part is here yet: whoever reads a range asks for it first.

A file of the Hub is kept as a sparse file of its full size, with the ranges that were fetched. Unfetched bytes of such
a file read as zeros, so nothing may be read without asking: `Source.check_range`, `read_header` and `Checkpoint.read`
do.
For all other files asking costs one look into an empty table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from spectool.errors import SourceError

MAX_SMALL = 32 * 2**20
"""Bytes of a header or of a tensor of whole numbers that a plan fetches at most."""

MAX_ALL_SMALL = 2**27
"""Bytes that all such fetches of a process move at most: many large headers are no checkpoint but an attack."""

_moved = [0]

Range = tuple[int, int]
"""First byte, and the byte after the last."""


class Fetcher(Protocol):
    """Where the bytes of one file come from."""

    def fetch(self, ranges: Sequence[Range]) -> int:
        """Bring ranges here, and return how many bytes that moved; those that are here cost nothing."""


_fetchers: dict[Path, Fetcher] = {}


def register(path: Path, fetcher: Fetcher) -> None:
    """Say that `path` is incomplete, and who completes it. It lasts as long as the process."""
    _fetchers[path] = fetcher


def incomplete(path: Path) -> bool:
    """Whether parts of a file may be missing."""
    return path in _fetchers


def ensure(path: Path, start: int, nbytes: int, *, limit: int | None = None) -> None:
    """Bring a range of a file here.

    Raises:
        SourceError: it cannot be fetched, or has more than `limit` bytes; or so have all such ranges together.

    """
    fetcher = _fetchers.get(path)
    if fetcher is None or nbytes <= 0:
        return
    if limit is not None and nbytes > limit:
        raise SourceError(f"{path.name}: {nbytes} bytes are wanted to plan with; at most {limit} are fetched for that")
    if limit is None:
        fetcher.fetch([(start, start + nbytes)])
        return
    _moved[0] += fetcher.fetch([(start, start + nbytes)])
    if _moved[0] > MAX_ALL_SMALL:
        raise SourceError(
            f"{path.name}: more than {MAX_ALL_SMALL} bytes of headers were fetched; no plan needs so many"
        )


def prepare(ranges: Iterable[tuple[Path, int, int]]) -> None:
    """Bring many ranges (file, start, nbytes) here at once: neighbours in one request, with one check of the file.

    Raises:
        SourceError: one cannot be fetched.

    """
    wanted: dict[Path, list[Range]] = {}
    for path, start, nbytes in ranges:
        if path in _fetchers and nbytes > 0:
            wanted.setdefault(path, []).append((start, start + nbytes))
    for path in sorted(wanted):
        _fetchers[path].fetch(wanted[path])


def merged(ranges: Iterable[Range], gap: int = 0) -> list[Range]:
    """Return ranges sorted, those joined that overlap or lie at most `gap` bytes apart."""
    result: list[Range] = []
    for start, stop in sorted(ranges):
        if result and start <= result[-1][1] + gap:
            result[-1] = (result[-1][0], max(result[-1][1], stop))
        elif start < stop:
            result.append((start, stop))
    return result


def without(wanted: Iterable[Range], have: Sequence[Range]) -> list[Range]:
    """Return what of `wanted` is not in `have`; both merged."""
    result: list[Range] = []
    for start, stop in wanted:
        position = start
        for begin, end in have:
            if end <= position or begin >= stop:
                continue
            if begin > position:
                result.append((position, begin))
            position = end
        if position < stop:
            result.append((position, stop))
    return result
