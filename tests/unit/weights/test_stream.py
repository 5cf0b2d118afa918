"""Blocks: nothing is lost between two of them, nothing is read that need not be, and memory stays small."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from checkpoints import write_safetensors

from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.header import read_header
from spectool.checkpoint.sources import Source, Sources
from spectool.errors import SourceError
from spectool.weights.stream import BLOCK, Scan, same_bytes, scan

INF = b"\x80\x7f"


def stored(path: Path, data: bytes, dtype: str = "BF16") -> TensorInfo:
    width = {"BF16": 2, "U8": 1}[dtype]
    write_safetensors(path, {"w": (dtype, (len(data) // width,), data)})
    return read_header(path).tensors["w"]


def scanned(info: TensorInfo) -> tuple[Scan, list[int]]:
    steps: list[int] = []
    with Sources() as files:
        return scan(files.get(info.file), info.start, info.nbytes, info.dtype, steps.append), steps


@pytest.mark.parametrize("place", [0, 1, BLOCK // 2 - 1, BLOCK // 2, BLOCK - 1, BLOCK + 5])
def test_a_value_is_found_wherever_it_stands(place: int, tmp_path: Path) -> None:
    data = bytearray(2 * BLOCK + 12)
    data[2 * place : 2 * place + 2] = INF
    found, steps = scanned(stored(tmp_path / "m.safetensors", bytes(data)))
    assert found == Scan(zero=False, odd=(place, "Inf"))
    assert sum(steps) == len(data)


@pytest.mark.parametrize("size", [2, BLOCK - 2, BLOCK, BLOCK + 2, 3 * BLOCK])
def test_zero_up_to_the_last_byte(size: int, tmp_path: Path) -> None:
    data = bytearray(size)
    assert scanned(stored(tmp_path / "a.safetensors", bytes(data)))[0] == Scan(zero=True, odd=None)
    data[-1] = 1
    assert scanned(stored(tmp_path / "b.safetensors", bytes(data)))[0] == Scan(zero=False, odd=None)


def test_no_values_are_not_zero(tmp_path: Path) -> None:
    assert scanned(stored(tmp_path / "m.safetensors", b""))[0] == Scan(zero=False, odd=None)


def test_the_first_of_several(tmp_path: Path) -> None:
    data = bytearray(4 * BLOCK)
    data[2 * BLOCK + 6 : 2 * BLOCK + 8] = b"\xff\xff"
    data[3 * BLOCK : 3 * BLOCK + 2] = INF
    found, steps = scanned(stored(tmp_path / "m.safetensors", bytes(data)))
    assert found.odd == (BLOCK + 3, "NaN")
    assert steps == [BLOCK, BLOCK, 2 * BLOCK]  # the rest was not read, and counts


def test_integers_are_read_until_they_are_not_zero(tmp_path: Path) -> None:
    found, steps = scanned(stored(tmp_path / "m.safetensors", b"\xff" * (3 * BLOCK), "U8"))
    assert found == Scan(zero=False, odd=None)
    assert steps == [3 * BLOCK]


def test_same_bytes(tmp_path: Path) -> None:
    data = bytearray(2 * BLOCK + 8)
    first = stored(tmp_path / "a.safetensors", bytes(data))
    for place in (0, BLOCK, len(data) - 1):
        other = bytearray(data)
        other[place] = 1
        second = stored(tmp_path / "b.safetensors", bytes(other))
        steps: list[int] = []
        with Sources() as files:
            left = (files.get(first.file), first)
            assert same_bytes(left, left)
            assert not same_bytes(left, (files.get(second.file), second), steps.append)
        assert sum(steps) == len(data)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    size = 256 * 2**20
    header = f'{{"w":{{"dtype":"BF16","shape":[{size // 2}],"data_offsets":[0,{size}]}}}}'.encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)  # a hole of zeros: nothing is on the disk
    info = read_header(path).tensors["w"]
    tracemalloc.start()
    try:
        found, _ = scanned(info)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.zero
    assert peak < 6 * BLOCK


def test_a_file_that_shrank_is_an_error(tmp_path: Path) -> None:
    info = stored(tmp_path / "m.safetensors", bytes(3 * BLOCK))
    with info.file.open("r+b") as file:
        file.truncate(2 * BLOCK)
    source = Source(info.file)
    with pytest.raises(SourceError, match="the file has"):
        scan(source, info.start, info.nbytes, info.dtype)
