"""The entries of a safetensors header: name, dtype, shape and offsets of each tensor, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from spectool.errors import SourceError

DTYPE_BITS: Mapping[str, int] = MappingProxyType(
    {
        "BOOL": 8,
        "F4": 4,
        "F6_E2M3": 6,
        "F6_E3M2": 6,
        "U8": 8,
        "I8": 8,
        "F8_E5M2": 8,
        "F8_E4M3": 8,
        "F8_E8M0": 8,
        "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8,
        "I16": 16,
        "U16": 16,
        "F16": 16,
        "BF16": 16,
        "I32": 32,
        "U32": 32,
        "F32": 32,
        "C64": 64,
        "F64": 64,
        "I64": 64,
        "U64": 64,
    }
)
"""Bits of one element, for every dtype name of the format (safetensors 0.8)."""

MAX_NAME_BYTES = 4096
_WORD = 2**64  # sizes are 64-bit in the reader this one must agree with
_KEYS = frozenset({"dtype", "shape", "data_offsets"})
_columns = itemgetter("dtype", "shape", "data_offsets")


class TensorInfo(NamedTuple):
    """Where one tensor's bytes lie; a tuple, since one is made for each of up to 20,000 tensors."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    """Byte offset of the first element in the file (not in the data section)."""
    nbytes: int


def read_entries(file: Path, document: Mapping[str, Any], data_start: int) -> list[TensorInfo]:
    """Return the tensors that a header describes, in the order of the header.

    Args:
        file: as messages and tensors name it.
        document: the header without its `__metadata__`.
        data_start: byte offset of the data section in the file.

    Raises:
        SourceError: a name, a dtype, a shape or the number of bytes is not what the format allows.

    """
    return [_entry(file, name, entry, data_start) for name, entry in document.items()]


def _entry(file: Path, name: str, entry: Any, data_start: int) -> TensorInfo:
    if "\0" in name or (4 * len(name) > MAX_NAME_BYTES and len(name.encode("utf-8")) > MAX_NAME_BYTES):
        raise SourceError(f"{file}: tensor name {name[:80]!r} holds a NUL or is longer than {MAX_NAME_BYTES} bytes")
    if not isinstance(entry, dict) or entry.keys() != _KEYS:
        found = sorted(entry) if isinstance(entry, dict) else type(entry).__name__
        raise _wrong(file, name, f"must have exactly the keys data_offsets, dtype and shape; found {found}")
    dtype, shape, offsets = _columns(entry)
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise _wrong(file, name, f"unknown dtype {dtype!r}", hint=f"The format has {', '.join(sorted(DTYPE_BITS))}.")
    if not isinstance(shape, list) or not _are_sizes(shape):
        raise _wrong(file, name, f"shape must be a list of sizes, found {shape!r}")
    if not isinstance(offsets, list) or not _are_sizes(offsets) or len(offsets) != 2:
        raise _wrong(file, name, f"data_offsets must be two byte offsets, found {offsets!r}")
    begin, end = offsets
    nbytes = tensor_nbytes(dtype, shape)
    if nbytes is None:
        raise _wrong(file, name, f"{dtype} x {shape} is no whole number of bytes, or not below 2**64 bits")
    if end - begin != nbytes:
        raise _wrong(file, name, f"{dtype} x {shape} needs {nbytes} bytes; data_offsets give {end - begin}")
    return TensorInfo(name, dtype, tuple(shape), file, data_start + begin, nbytes)


def _wrong(file: Path, name: str, what: str, hint: str | None = None) -> SourceError:
    return SourceError(f"{file}: tensor {name!r}: {what}", hint=hint)


def _are_sizes(values: list[Any]) -> bool:
    for item in values:  # noqa: SIM110 - of 20,000 tensors a mixture may have; a generator for each doubles the time
        if type(item) is not int or not 0 <= item < _WORD:  # bool is an int to Python
            return False
    return True


def tensor_nbytes(dtype: str, shape: Sequence[int]) -> int | None:
    """Return the bytes of a tensor; None when they are no whole number, or 64 bits cannot count its bits."""
    elements = 1
    for size in shape:
        # Multiplied in order, as the reader does: a size of 0 saves what follows it and not what came before.
        elements *= size
        if elements >= _WORD:
            return None
    bits = elements * DTYPE_BITS[dtype]
    return None if bits >= _WORD or bits % 8 else bits // 8
