"""Every bit pattern of the small float formats, and the edges of the large ones."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import pytest

from spectool.checkpoint.entries import DTYPE_BITS
from spectool.weights.numbers import FLOATS


def said(value: float) -> str | None:
    return "NaN" if math.isnan(value) else "Inf" if math.isinf(value) else None


def e4m3(bits: int) -> str | None:
    return "NaN" if bits & 0x7F == 0x7F else None


def e5m2(bits: int) -> str | None:
    # It is the top half of a half float.
    return said(struct.unpack("<e", bytes([0, bits]))[0])


REFERENCES: dict[str, Callable[[int], str | None]] = {
    "BF16": lambda bits: said(struct.unpack("<f", struct.pack("<I", bits << 16))[0]),
    "F16": lambda bits: said(struct.unpack("<e", struct.pack("<H", bits))[0]),
    "F8_E4M3": e4m3,
    "F8_E5M2": e5m2,
    "F8_E8M0": lambda bits: "NaN" if bits == 0xFF else None,
    "F8_E4M3FNUZ": lambda bits: "NaN" if bits == 0x80 else None,
    "F8_E5M2FNUZ": lambda bits: "NaN" if bits == 0x80 else None,
}


@pytest.mark.parametrize("dtype", REFERENCES)
def test_every_pattern(dtype: str) -> None:
    form, reference = FLOATS[dtype], REFERENCES[dtype]
    for bits in range(256**form.width):
        found = form.find(bits.to_bytes(form.width, "little"))
        assert found == (None if reference(bits) is None else (0, reference(bits)))


EDGES = [
    ("F32", "<I", 0x7F800000, "Inf"),
    ("F32", "<I", 0xFF800000, "Inf"),
    ("F32", "<I", 0x7F800001, "NaN"),
    ("F32", "<I", 0xFFFFFFFF, "NaN"),
    ("F32", "<I", 0x7F7FFFFF, None),  # the largest number
    ("F32", "<I", 0x7F000000, None),  # with the first byte of a NaN
    ("F64", "<Q", 0x7FF0000000000000, "Inf"),
    ("F64", "<Q", 0xFFF0000000000001, "NaN"),
    ("F64", "<Q", 0x7FEFFFFFFFFFFFFF, None),
    ("C64", "<I", 0x7FC00000, "NaN"),
]


@pytest.mark.parametrize(("dtype", "code", "bits", "expected"), EDGES)
def test_edges_of_large_formats(dtype: str, code: str, bits: int, expected: str | None) -> None:
    ordinary = struct.pack(code, 0)
    block = ordinary * 3 + struct.pack(code, bits) + ordinary
    assert FLOATS[dtype].find(block) == (None if expected is None else (3, expected))


def test_two_halves_of_neighbours_are_no_value() -> None:
    # 0x80 0x7f would be infinity, and stands across the border of two numbers.
    assert FLOATS["BF16"].find(bytes([0x00, 0x80, 0x7F, 0x00])) is None
    assert FLOATS["BF16"].find(bytes([0x80, 0x7F, 0x00, 0x00])) == (0, "Inf")


def test_the_first_one_is_told_behind_large_numbers() -> None:
    large, nan, inf = b"\x7f\x7f", b"\x81\xff", b"\x80\x7f"
    assert FLOATS["BF16"].find(large * 1000 + nan + inf) == (1000, "NaN")
    assert FLOATS["BF16"].find(large * 1000) is None


def test_every_float_of_the_format_is_known() -> None:
    without = {"F4", "F6_E2M3", "F6_E3M2", "BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64"}
    assert set(DTYPE_BITS) - set(FLOATS) == without
    for dtype, form in FLOATS.items():
        assert form.width == (4 if dtype == "C64" else DTYPE_BITS[dtype] // 8)
