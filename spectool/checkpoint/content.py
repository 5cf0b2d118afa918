"""What the bytes of one output tensor are made of.

A closed set: a range of a source file as it is or with a piece of it replaced, zeros, bytes already in memory, a matrix
with its column blocks in another order, or bf16 values times a factor. Each knows its `nbytes`; none but `Inline` holds
the tensor itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spectool.checkpoint.bf16 import scale_table


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a source file, copied in the kernel."""

    file: Path
    start: int
    nbytes: int

    def __post_init__(self) -> None:
        _check_range(self.start, self.nbytes)


@dataclass(frozen=True, slots=True)
class Zeros:
    """Nothing but zero bytes (an all-zero head)."""

    nbytes: int

    def __post_init__(self) -> None:
        _check_range(0, self.nbytes)


@dataclass(frozen=True, slots=True)
class Inline:
    """Bytes already in memory, for tensors as small as a vocabulary map."""

    data: bytes

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class PermutedColumns:
    """A row-major matrix whose columns are equal blocks, with the blocks in another order.

    Every row has `len(order)` blocks of `block_bytes` bytes; output block j is input block `order[j]`. That is how `fc`
    follows the aux layers into ascending order: shape [hidden, layers x hidden], one block per layer.

    Raises:
        ValueError: a size is negative, or `order` is no permutation.

    """

    file: Path
    start: int
    rows: int
    block_bytes: int
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_range(self.start, self.rows)
        _check_range(0, self.block_bytes)
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"{self.order} is no permutation of its {len(self.order)} positions")

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.rows * self.block_bytes * len(self.order)


@dataclass(frozen=True, slots=True)
class ScaledBF16:
    """A range of bf16 values, each replaced through a table; build it with `scaled_bf16`.

    Raises:
        ValueError: a size is negative or odd, or the table has not 65,536 entries.

    """

    file: Path
    start: int
    nbytes: int
    table: bytes
    """The output of every bf16 bit pattern: 65,536 little-endian 16-bit values."""

    def __post_init__(self) -> None:
        _check_range(self.start, self.nbytes)
        if self.nbytes % 2:
            raise ValueError(f"{self.nbytes} bytes are no whole number of bf16 values")
        if len(self.table) != 2 * 2**16:
            raise ValueError(f"the table has {len(self.table)} bytes, not {2 * 2**16}")


@dataclass(frozen=True, slots=True)
class Overlaid:
    """A range of a source file with `data` in place of its bytes from `at` on (one row of an embedding).

    Raises:
        ValueError: a size is negative, or `data` does not lie inside the range.

    """

    file: Path
    start: int
    nbytes: int
    data: bytes
    at: int

    def __post_init__(self) -> None:
        _check_range(self.start, self.nbytes)
        if self.at < 0 or self.at + len(self.data) > self.nbytes:
            raise ValueError(f"bytes {self.at} to {self.at + len(self.data)} are not inside {self.nbytes}")


Content = FileRange | Zeros | Inline | PermutedColumns | ScaledBF16 | Overlaid


def scaled_bf16(file: Path, start: int, nbytes: int, factor: float) -> ScaledBF16:
    """Return the content `range * factor`: the exact product, rounded once to the nearest bf16, ties to even.

    A product beyond the largest bf16 becomes infinite. NaN and infinities stay (a negative factor changes the sign of
    an infinity, as of every number).

    Raises:
        ValueError: the factor is zero, infinite or NaN; a size is negative or odd.

    """
    return ScaledBF16(file, start, nbytes, scale_table(factor))


def _check_range(start: int, nbytes: int) -> None:
    if start < 0 or nbytes < 0:
        raise ValueError(f"a range cannot begin at {start} or have {nbytes} bytes")
