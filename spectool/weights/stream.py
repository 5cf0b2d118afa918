"""Pass over tensors block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.sources import Source
from spectool.weights.numbers import FLOATS, Kind

BLOCK = 2**20
"""Bytes; a multiple of every width. Small enough for a processor's cache, in which all looks at it take place."""
_ZEROS = bytes(BLOCK)
Step = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Scan:
    """What a range of values holds. `zero`: every byte is 0; `odd`: place and kind of the first NaN or infinity."""

    zero: bool
    odd: tuple[int, Kind] | None


def scan(source: Source, start: int, nbytes: int, dtype: str, step: Step | None = None) -> Scan:
    """Look at a range of a file; ends early where nothing more can be learnt.

    Args:
        source: the file.
        start: where the range begins.
        nbytes: its length, a whole number of values.
        dtype: the safetensors name.
        step: called with the number of bytes after each block; what is skipped counts.

    """
    form = FLOATS.get(dtype)
    zero, odd, done = nbytes > 0, None, 0
    for block in _blocks(source, start, nbytes):
        zero = zero and block == _ZEROS[: len(block)]
        if form is not None and (found := form.find(block)):
            odd = (done // form.width + found[0], found[1])
        done += len(block)
        ended = not zero and (odd is not None or form is None)
        if step is not None:
            step(nbytes - done + len(block) if ended else len(block))
        if ended:
            break
    return Scan(zero, odd)


def same_bytes(first: tuple[Source, TensorInfo], second: tuple[Source, TensorInfo], step: Step | None = None) -> bool:
    """Whether two tensors of equal size hold the same bytes."""
    (left, here), (right, there) = first, second
    done = 0
    blocks = zip(_blocks(left, here.start, here.nbytes), _blocks(right, there.start, there.nbytes), strict=True)
    for ours, theirs in blocks:
        equal = ours == theirs
        done += len(ours)
        if step is not None:
            step(len(ours) if equal else here.nbytes - done + len(ours))
        if not equal:
            return False
    return True


def _blocks(source: Source, start: int, nbytes: int) -> Iterator[bytearray]:
    """Yield the bytes of a range. A whole block is overwritten by the next one."""
    source.check_range(start, nbytes)
    buffer = bytearray(min(BLOCK, nbytes))
    for at in range(start, start + nbytes, BLOCK):
        size = min(BLOCK, start + nbytes - at)
        if size < len(buffer):
            buffer = bytearray(size)
        source.read_into(memoryview(buffer), at)
        yield buffer
