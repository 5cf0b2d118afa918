"""bf16 times a factor, without a number library: one table of all 65,536 values, looked up.

A bf16 is 1 sign bit, 8 exponent bits and 7 mantissa bits: the upper half of a float32.
"""

from __future__ import annotations

import math
import sys
from array import array
from functools import lru_cache
from typing import NamedTuple

_INFINITY = 0x7F80
_SIGN = 0x8000


@lru_cache(maxsize=8)
def scale_table(factor: float) -> bytes:
    """Return `factor * value` for every bf16 bit pattern, as 65,536 little-endian 16-bit patterns.

    The exact product is rounded once, to nearest, ties to even. (torch rounds a scalar to float32 before it multiplies
    bf16 by it; give the factor as the producer had it.) NaN stays as it is; an infinity keeps its size.

    Raises:
        ValueError: the factor is zero, infinite or NaN.

    """
    if not math.isfinite(factor) or factor == 0:
        raise ValueError(f"cannot scale by {factor}")
    numerator, denominator = abs(factor).as_integer_ratio()
    shift = denominator.bit_length() - 1  # the denominator is a power of two
    flip = _SIGN if factor < 0 else 0
    positive = [_scaled(pattern, numerator, shift) for pattern in range(_INFINITY)] + [_INFINITY]
    # NaN patterns are left alone, whatever the factor's sign.
    nans = range(_INFINITY + 1, _SIGN)
    table = array("H", [*(p | flip for p in positive), *nans, *(p | (_SIGN ^ flip) for p in positive)])
    table.extend(nan | _SIGN for nan in nans)
    return _little_endian(table)


def _scaled(pattern: int, numerator: int, shift: int) -> int:
    """Return the bit pattern of a finite, non-negative bf16 times numerator / 2**shift."""
    exponent, mantissa = pattern >> 7, pattern & 0x7F
    # value = significand * 2**power; subnormals have exponent 0, the power of exponent 1, and no hidden bit.
    significand = mantissa | (0x80 if exponent else 0)
    power = max(exponent, 1) - 134
    product = significand * numerator
    if product == 0:
        return 0
    power -= shift
    # Keep 8 bits, or fewer when the result is subnormal: its last bit is never worth less than 2**-133.
    drop = max(product.bit_length() - 8, -133 - power)
    if drop > 0:
        half = 1 << (drop - 1)
        kept = product >> drop
        rest = product & ((1 << drop) - 1)
        kept += rest > half or (rest == half and kept & 1)
    else:
        kept = product << -drop
    # `kept` is below 256, or 256 after a carry. Added to the result's exponent field, the carry, the hidden bit and the
    # step from subnormal to normal fall into place by themselves.
    field = drop + power + 133
    return min((field << 7) + kept, _INFINITY)


def map_bf16(data: bytes, table: bytes) -> bytes:
    """Return every little-endian 16-bit value of `data` replaced by its entry in `table`."""
    low, high = data[0::2], data[1::2]
    planes = _planes(table)
    irregular = len(high) - len(high.translate(None, planes.irregular))
    if irregular * 8 > len(high):
        return _map_one_by_one(data, table)
    # Python has no fast lookup of two bytes at a time, but one of single bytes (12 x faster, measured). Scaling moves
    # an exponent by one of two steps that the low byte decides, so nearly always: low byte = f(low), high byte = high
    # + g(low). The sum over all high bytes is one addition of long integers; no regular byte carries into the next.
    total = int.from_bytes(high.translate(planes.regular), "little")
    step = int.from_bytes(low.translate(planes.step), "little")
    out = bytearray(len(data))
    out[0::2] = low.translate(planes.low)
    out[1::2] = (total + planes.sign * step).to_bytes(len(high), "little")
    if irregular:
        # Zeros, subnormals, and what over- or underflows.
        marks = high.translate(planes.marks)
        at = marks.find(1)
        while at >= 0:
            entry = 2 * (high[at] << 8 | low[at])
            out[2 * at : 2 * at + 2] = table[entry : entry + 2]
            at = marks.find(1, at + 1)
    return bytes(out)


class _Planes(NamedTuple):
    """A table taken apart into what single bytes say."""

    low: bytes
    step: bytes
    sign: int
    irregular: bytes
    """High bytes for which `low` and `step` do not hold."""
    marks: bytes
    regular: bytes
    """Every high byte, the irregular ones replaced by one that is safe to add to."""


@lru_cache(maxsize=8)
def _planes(table: bytes) -> _Planes:
    def row(high: int) -> tuple[bytes, list[int]]:
        entries = table[512 * high : 512 * (high + 1)]
        return entries[0::2], [entry - high for entry in entries[1::2]]

    typical = 0x3F  # values around 1
    low, steps = row(typical)
    if min(steps) < 0 < max(steps):  # no table of a factor; one by one is right for any
        return _Planes(low, bytes(256), 1, bytes(range(256)), bytes([1] * 256), bytes(256))
    irregular = bytes(high for high in range(256) if row(high) != (low, steps))
    return _Planes(
        low=low,
        step=bytes(abs(step) for step in steps),
        sign=-1 if min(steps) < 0 else 1,
        irregular=irregular,
        marks=bytes(high in irregular for high in range(256)),
        regular=bytes(typical if high in irregular else high for high in range(256)),
    )


def _map_one_by_one(data: bytes, table: bytes) -> bytes:
    values, entries = array("H"), array("H")
    values.frombytes(data)
    entries.frombytes(table)
    if sys.byteorder == "big":
        values.byteswap()
        entries.byteswap()
    return _little_endian(array("H", map(entries.__getitem__, values)))


def _little_endian(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
