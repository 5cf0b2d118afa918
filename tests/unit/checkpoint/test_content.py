from __future__ import annotations

import random
import struct
from array import array
from fractions import Fraction
from pathlib import Path

import pytest

from spectool.checkpoint.bf16 import map_bf16, scale_table
from spectool.checkpoint.content import FileRange, Inline, Overlaid, PermutedColumns, ScaledBF16, Zeros, scaled_bf16

ALL = array("H", range(65536)).tobytes()
INFINITY = 0x7F80


def value_of(pattern: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", pattern << 16))[0])


# Magnitudes in units of 2**-133, the smallest subnormal. The last, infinity's, is where rounding begins to overflow.
MAGNITUDES = [int(Fraction(value_of(pattern)) * 2**133) for pattern in range(INFINITY)] + [2 ** (128 + 133)]


def is_nearest_even(pattern: int, numerator: int, denominator: int) -> bool:
    """Whether a magnitude's pattern is numerator / denominator rounded to nearest, ties to even."""
    if numerator >= MAGNITUDES[INFINITY] * denominator:
        return pattern == INFINITY
    distance = abs(MAGNITUDES[pattern] * denominator - numerator)
    for neighbour in (pattern - 1, pattern + 1):
        if 0 <= neighbour <= INFINITY:
            other = abs(MAGNITUDES[neighbour] * denominator - numerator)
            if other < distance or (other == distance and pattern % 2):
                return False
    return True


@pytest.mark.parametrize("factor", [73.5, 0.612, -2.0, 1.0, 1e-39, 3e38, 5e-324])
def test_all_bf16_values_scaled_against_exact_fractions(factor: float) -> None:
    table = array("H", scale_table(factor))
    numerator, denominator = abs(factor).as_integer_ratio()
    for pattern in range(65536):
        scaled, magnitude = table[pattern], pattern & 0x7FFF
        sign = (pattern >> 15) ^ (factor < 0)
        if magnitude > INFINITY:  # NaN
            assert scaled == pattern
        elif magnitude == INFINITY:
            assert scaled == sign << 15 | INFINITY
        else:
            assert scaled >> 15 == sign, hex(pattern)
            assert is_nearest_even(scaled & 0x7FFF, MAGNITUDES[magnitude] * numerator, denominator), hex(pattern)


def test_known_products() -> None:
    # sqrt(5376) = 73.32..., which bf16 rounds to 73.5: gemma's embedding factor.
    table = array("H", scale_table(73.5))
    assert value_of(table[0x3F80]) == 73.5
    assert value_of(table[0x4040]) == 220.0  # 3 x 73.5 = 220.5 lies between 220 and 221: to even
    assert table[0x8000] == 0x8000
    assert table[0x7F00] == 0x7F80  # overflow


@pytest.mark.parametrize("factor", [0.0, -0.0, float("inf"), float("nan")])
def test_a_factor_that_would_destroy_the_tensor(factor: float) -> None:
    with pytest.raises(ValueError, match="cannot scale by"):
        scale_table(factor)


@pytest.mark.parametrize("factor", [73.5, 0.612, -0.612, 1.0, 2.0**-140, 1e38])
def test_mapping_looks_up_every_value_however_it_takes_the_bytes_apart(factor: float) -> None:
    table = scale_table(factor)
    rng = random.Random(1)  # noqa: S311 - test data, no secret
    entries = array("H", table)
    usual = [rng.choice((0x8000, 0)) | rng.randrange(0x3A00, 0x4100) for _ in range(5000)]
    for share in (0, 0.01, 0.1, 0.5, 1):  # of values that have to be looked up one by one
        values = [rng.randrange(65536) if rng.random() < share else value for value in usual]
        expected = array("H", [entries[value] for value in values]).tobytes()
        assert map_bf16(array("H", values).tobytes(), table) == expected
    assert map_bf16(ALL, table) == table
    for high in range(256):
        rows = ALL[512 * high : 512 * (high + 1)]
        assert map_bf16(rows, table) == table[512 * high : 512 * (high + 1)]
    assert map_bf16(b"", table) == b""


def test_mapping_takes_any_table() -> None:
    rng = random.Random(2)  # noqa: S311 - test data, no secret
    values = list(range(65536))
    rng.shuffle(values)
    table = array("H", values).tobytes()
    assert map_bf16(ALL, table) == table
    usual = array("H", [0x3F80, 0xBF81, 0x4000] * 100)
    assert array("H", map_bf16(usual.tobytes(), table)).tolist() == [values[value] for value in usual]


def test_sizes() -> None:
    file = Path("f")
    assert FileRange(file, 5, 7).nbytes == 7
    assert Zeros(3).nbytes == 3
    assert Inline(b"ab").nbytes == 2
    assert PermutedColumns(file, 0, rows=3, block_bytes=4, order=(1, 0)).nbytes == 24
    assert scaled_bf16(file, 2, 4, 2.0) == ScaledBF16(file, 2, 4, scale_table(2.0))


def test_contents_that_cannot_be() -> None:
    file = Path("f")
    for order in ((0, 0), (1, 2), (0, 2), (-1, 0)):
        with pytest.raises(ValueError, match="no permutation"):
            PermutedColumns(file, 0, 1, 1, order)
    with pytest.raises(ValueError, match="cannot begin at -1"):
        FileRange(file, -1, 2)
    with pytest.raises(ValueError, match="have -1 bytes"):
        Zeros(-1)
    with pytest.raises(ValueError, match="have -3 bytes"):
        PermutedColumns(file, 0, -3, 1, (0,))
    with pytest.raises(ValueError, match="no whole number of bf16"):
        scaled_bf16(file, 0, 3, 2.0)
    with pytest.raises(ValueError, match="the table has 4 bytes"):
        ScaledBF16(file, 0, 2, b"1234")


@pytest.mark.parametrize("at", [-1, 7])
def test_what_is_laid_over_lies_inside(at: int, tmp_path: Path) -> None:
    assert Overlaid(tmp_path / "x", 0, 8, b"ab", 6).nbytes == 8
    with pytest.raises(ValueError, match="are not inside 8"):
        Overlaid(tmp_path / "x", 0, 8, b"ab", at)
