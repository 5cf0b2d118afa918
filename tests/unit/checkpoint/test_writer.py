from __future__ import annotations

import hashlib
import json
import os
import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from checkpoints import names_in, read_back, read_back_folder

from spectool.checkpoint import copying
from spectool.checkpoint.content import FileRange, Inline, PermutedColumns, Zeros, scaled_bf16
from spectool.checkpoint.folder import open_checkpoint
from spectool.checkpoint.header import read_header
from spectool.checkpoint.writer import OutputTensor, WrittenFile, write_checkpoint
from spectool.errors import OutputError, SourceError

CONFIG = {"config.json": b"{}\n"}


def noise(nbytes: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(nbytes)  # noqa: S311 - test data, no secret


def inline(name: str, nbytes: int) -> OutputTensor:
    return OutputTensor(name, "U8", (nbytes,), Inline(noise(nbytes, len(name))))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source" / "raw.bin"
    path.parent.mkdir()
    path.write_bytes(noise(10_000))
    return path


def from_file(source: Path, name: str = "w", start: int = 1, nbytes: int = 9_000) -> OutputTensor:
    return OutputTensor(name, "U8", (nbytes,), FileRange(source, start, nbytes))


def test_one_file_with_every_kind_of_content(source: Path, tmp_path: Path) -> None:
    raw = source.read_bytes()
    bf16 = array("H", raw[100:1100])
    tensors = [
        from_file(source, "range"),
        OutputTensor("zeros", "F32", (5, 5), Zeros(100)),
        OutputTensor("map", "I64", (2,), Inline(b"0123456789abcdef")),
        OutputTensor("fc", "BF16", (7, 12), PermutedColumns(source, 3, 7, 8, (2, 0, 1))),
        OutputTensor("scaled", "BF16", (500,), scaled_bf16(source, 100, 1000, 2.0)),
        OutputTensor("empty", "U8", (0,), FileRange(source, 10_000, 0)),
    ]
    written = write_checkpoint(tmp_path / "out", tensors, CONFIG)
    found = read_back(tmp_path / "out" / "model.safetensors")
    assert set(found) == {tensor.name for tensor in tensors}
    digests = {name: hashlib.sha256(data).hexdigest() for name, (_, _, data) in found.items()}
    assert [file.tensors for file in written] == [digests, {}]
    for tensor in tensors:
        assert found[tensor.name][:2] == (tensor.dtype, tensor.shape)
    assert found["range"][2] == raw[1:9001]
    assert found["zeros"][2] == bytes(100)
    assert found["map"][2] == b"0123456789abcdef"
    matrix = raw[3 : 3 + 7 * 24]
    rows = [matrix[24 * row : 24 * row + 24] for row in range(7)]
    assert found["fc"][2] == b"".join(row[16:24] + row[0:8] + row[8:16] for row in rows)
    doubled = array("H", found["scaled"][2])
    for before, after in zip(bf16, doubled, strict=True):
        if 0 < before & 0x7F80 < 0x7F00:  # normal, and its double too
            assert after == before + 0x80
    assert [file.name for file in written] == ["model.safetensors", "config.json"]
    assert names_in(tmp_path) == ["out", "source"]
    assert names_in(tmp_path / "out") == ["config.json", "model.safetensors"]


def test_what_is_returned_is_what_is_there(source: Path, tmp_path: Path) -> None:
    seen: list[WrittenFile] = []

    def finish(files: Sequence[WrittenFile]) -> dict[str, bytes]:
        seen.extend(files)
        return {"provenance.json": b"[]"}

    documents = {"config.json": b"{}", "zz.txt": b"", "a.txt": b"a"}
    tensors = [from_file(source, "w1"), from_file(source, "w2"), inline("w0", 5)]
    written = write_checkpoint(
        tmp_path / "out", tensors, documents, shard_bytes=9_000, side_files={"tok": source}, finish=finish
    )
    # config.json is the last of the documents; what `finish` returns comes after it.
    assert [file.name for file in written] == [
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
        "model.safetensors.index.json",
        "tok",
        "a.txt",
        "zz.txt",
        "config.json",
        "provenance.json",
    ]
    assert tuple(seen) == written[:-1]
    for file in written:
        data = (tmp_path / "out" / file.name).read_bytes()
        assert (file.nbytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert names_in(tmp_path / "out") == sorted(file.name for file in written)
    assert (tmp_path / "out" / "tok").read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("shard_bytes", "groups"),
    [
        (100, [["a", "b", "c", "d"]]),
        (99, [["a", "b", "c"], ["d"]]),
        (80, [["a", "b", "c"], ["d"]]),
        (79, [["a", "b"], ["c", "d"]]),
        (50, [["a"], ["b"], ["c", "d"]]),  # b is as large as a shard
        (49, [["a"], ["b"], ["c"], ["d"]]),  # b is larger than a shard
        (1, [["a"], ["b"], ["c"], ["d"]]),
    ],
)
def test_shards(shard_bytes: int, groups: list[list[str]], tmp_path: Path) -> None:
    # An empty tensor never fills a shard; one of a byte does.
    tensors = [inline("d", 20), inline("a", 0 if shard_bytes > 50 else 1), inline("b", 50), inline("c", 30)]
    out = tmp_path / "out"
    write_checkpoint(out, tensors, CONFIG, shard_bytes=shard_bytes)
    files = sorted(path.name for path in out.glob("*.safetensors"))
    assert [list(read_header(out / file).tensors) for file in files] == groups
    if len(groups) == 1:
        assert files == ["model.safetensors"]
        assert not (out / "model.safetensors.index.json").exists()
    else:
        assert files == [f"model-{n:05d}-of-{len(groups):05d}.safetensors" for n in range(1, len(groups) + 1)]
        index = json.loads((out / "model.safetensors.index.json").read_text())
        assert index["metadata"]["total_size"] == sum(tensor.content.nbytes for tensor in tensors)
        expected = {name: file for file, names in zip(files, groups, strict=True) for name in names}
        assert index["weight_map"] == expected
        assert list(index["weight_map"]) == sorted(expected)
    found = open_checkpoint(out)
    assert {name: found.read(name) for name in found.tensors} == {
        tensor.name: tensor.content.data for tensor in tensors if isinstance(tensor.content, Inline)
    }


def test_every_tensor_is_aligned_to_its_elements(tmp_path: Path) -> None:
    tensors = [
        OutputTensor("a", "BOOL", (3,), Zeros(3)),
        OutputTensor("b", "F4", (2, 5), Zeros(5)),
        OutputTensor("c", "BF16", (1,), Zeros(2)),
        OutputTensor("d", "I64", (1,), Zeros(8)),
        OutputTensor("e", "F32", (1,), Zeros(4)),
        OutputTensor("f", "BF16", (1,), Zeros(2)),
    ]
    write_checkpoint(tmp_path / "out", tensors, CONFIG)
    header = read_header(tmp_path / "out" / "model.safetensors")
    assert header.data_start % 8 == 0
    assert list(header.tensors) == ["d", "e", "c", "f", "a", "b"]
    assert header.metadata == {"format": "pt"}


def test_same_input_same_bytes(source: Path, tmp_path: Path) -> None:
    tensors = [from_file(source, "w1"), from_file(source, "w2"), inline("x", 7)]
    for name, order in (("one", 1), ("another name", -1)):
        write_checkpoint(
            tmp_path / name,
            tensors[::order],
            dict([("config.json", b"{}"), ("b", b"b")][::order]),
            shard_bytes=9_000,
            metadata=dict([("format", "pt"), ("a", "b")][::order]),
        )
    first = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "another name").iterdir()}
    assert len(first) == 6


@pytest.mark.parametrize(("umask", "folder", "file"), [(0o022, 0o755, 0o644), (0o027, 0o750, 0o640), (0, 0o777, 0o666)])
def test_umask_is_honoured(umask: int, folder: int, file: int, source: Path, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_checkpoint(tmp_path / "new" / "out", [from_file(source)], CONFIG, side_files={"s": source})
    finally:
        os.umask(before)
    for path in (tmp_path / "new", tmp_path / "new" / "out"):
        assert path.stat().st_mode & 0o777 == folder
    for path in (tmp_path / "new" / "out").iterdir():
        assert path.stat().st_mode & 0o777 == file


def test_progress_ends_at_all(source: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    tensors = [from_file(source, "w1"), from_file(source, "w2")]
    write_checkpoint(
        tmp_path / "out", tensors, CONFIG, shard_bytes=1, progress=lambda done, of: calls.append((done, of))
    )
    total = sum(path.stat().st_size for path in (tmp_path / "out").glob("*.safetensors"))
    assert calls[-1] == (total, total)
    assert {of for _, of in calls} == {total}
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_missing_parents_are_made_and_taken_back_on_failure(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "out"
    with pytest.raises(SourceError):
        write_checkpoint(out, [from_file(source, start=9_999)], CONFIG)
    assert names_in(tmp_path) == ["source"]
    write_checkpoint(out, [from_file(source)], CONFIG)
    assert (out / "config.json").exists()


def test_relative_output(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(Path("out"), [from_file(source)], CONFIG)
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_large_permutation_in_pieces_and_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, block, order = 23, 40, (3, 1, 4, 0, 2)
    raw = noise(rows * block * 5)
    path = tmp_path / "source" / "raw.bin"
    path.parent.mkdir()
    path.write_bytes(raw)
    expected = bytearray()
    for row in range(rows):
        for index in order:
            start = (row * 5 + index) * block
            expected += raw[start : start + block]
    tensor = OutputTensor("fc", "U8", (rows, 5 * block), PermutedColumns(path, 0, rows, block, order))
    # Buffers of: all rows; 23 rows in pieces of 3; less than two rows, so that blocks are copied one by one.
    for number, size in enumerate((copying.BUFFER_BYTES, 2 * 3 * 200 + 50, 399)):
        monkeypatch.setattr(copying, "BUFFER_BYTES", size)
        monkeypatch.setattr(copying, "PIECE_BYTES", min(size, copying.PIECE_BYTES))
        monkeypatch.setattr("spectool.checkpoint.writer.BUFFER_BYTES", size)
        out = tmp_path / f"out{number}"
        write_checkpoint(out, [tensor], CONFIG)
        assert read_back(out / "model.safetensors")["fc"][2] == bytes(expected)


def test_scaling_and_zeros_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "source" / "raw.bin"
    path.parent.mkdir()
    path.write_bytes(array("H", range(65536)).tobytes())
    scaled = scaled_bf16(path, 0, 131072, 0.612)
    monkeypatch.setattr(copying, "BUFFER_BYTES", 1000)
    monkeypatch.setattr(copying, "SCALE_BYTES", 998)
    tensors = [OutputTensor("s", "BF16", (65536,), scaled), OutputTensor("z", "U8", (2500,), Zeros(2500))]
    write_checkpoint(tmp_path / "out", tensors, CONFIG)
    found = read_back(tmp_path / "out" / "model.safetensors")
    assert found["s"][2] == scaled.table
    assert found["z"][2] == bytes(2500)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([OutputTensor("w", "BF16", (3,), Zeros(5))], r"BF16 x \[3\] needs 6 bytes; its content has 5"),
        ([OutputTensor("w", "U9", (3,), Zeros(3))], "unknown dtype 'U9'"),
        ([inline("w", 1), inline("w", 2)], "'w': the name is taken"),
    ],
)
def test_tensors_that_do_not_add_up(tensors: list[OutputTensor], message: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=message):
        write_checkpoint(tmp_path / "out", tensors, CONFIG)
    assert names_in(tmp_path) == []


def test_the_same_name_in_two_shards(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="same name"):
        write_checkpoint(tmp_path / "out", [inline("w", 1), inline("w", 2)], CONFIG, shard_bytes=1)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/a", "a\0", "config.json", "x.safetensors", "model.safetensors.index.json"]
)
def test_names_of_other_files(name: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot be the name|would pass for"):
        write_checkpoint(tmp_path / "out", [from_file(source)], CONFIG, side_files={name: source})
    with pytest.raises(OutputError, match=r"cannot be the name|would pass for"):
        write_checkpoint(tmp_path / "out", [from_file(source)], CONFIG, finish=lambda _: {name: b""})
    assert names_in(tmp_path) == ["source"]


def test_shard_size_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot have 0 bytes"):
        write_checkpoint(tmp_path / "out", [], CONFIG, shard_bytes=0)


def test_no_tensors_is_a_valid_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "out", [], CONFIG)
    assert read_back_folder(tmp_path / "out") == {}


@pytest.mark.parametrize("where", [".", "raw.bin", "sub", "sub/deeper", ".."])
def test_an_output_at_in_or_above_a_source_is_refused(where: str, source: Path, tmp_path: Path) -> None:
    out = Path(os.path.normpath(source.parent / where))
    for options in ({"tensors": [from_file(source)]}, {"tensors": [], "side_files": {"s": source}}):
        with pytest.raises(
            OutputError, match=r"(is the folder|(lies inside|holds) .*source, the folder) that is read from"
        ):
            write_checkpoint(out, documents=CONFIG, overwrite=True, **options)  # type: ignore[arg-type]  # wrong arguments are the test
    assert source.stat().st_size == 10_000
    assert names_in(source.parent) == ["raw.bin"]


def test_a_source_is_recognised_through_links(source: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(source.parent)
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model.bin").symlink_to(source)
    for out, file in (
        (tmp_path / "alias" / "out", source),
        (source.parent / "out", tmp_path / "alias" / "raw.bin"),
        (source.parent / "out", snapshot / "model.bin"),
        (snapshot / "out", snapshot / "model.bin"),
    ):
        with pytest.raises(OutputError, match=r"lies inside .*, the folder that is read from"):
            write_checkpoint(out, [from_file(file)], CONFIG)
    # Beside it, with a name that begins alike, is apart from it.
    write_checkpoint(tmp_path / "source2", [from_file(source)], CONFIG)


def test_too_little_space_is_said_before_a_byte_is_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Status:
        f_bavail, f_frsize = 20, 512

    monkeypatch.setattr(os, "statvfs", lambda _: Status)
    created: list[Any] = []
    real_open = os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: created.append(a) or real_open(*a, **k))
    header = 8 + 96
    with pytest.raises(OutputError, match=r"needs (\d+) bytes; 10240 are free") as refused:
        write_checkpoint(tmp_path / "out", [from_file(source, nbytes=9_000), inline("x", 1500)], CONFIG)
    needed = int(refused.value.message.split(" needs ")[1].split()[0])
    assert 10_500 + header <= needed <= 10_500 + 300
    assert not [a for a in created if a[1] & os.O_CREAT]
    assert names_in(tmp_path) == ["source"]
    write_checkpoint(tmp_path / "out", [from_file(source, nbytes=9_000)], CONFIG)


def test_a_range_outside_its_file(source: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="bytes 1001 to 10001 are wanted; the file has 10000"):
        write_checkpoint(tmp_path / "out", [from_file(source, start=1001)], CONFIG)
    write_checkpoint(tmp_path / "out", [from_file(source, start=1000)], CONFIG)


def test_a_missing_source(source: Path, tmp_path: Path) -> None:
    source.unlink()
    for options in ({"tensors": [from_file(source)]}, {"tensors": [], "side_files": {"s": source}}):
        with pytest.raises(SourceError, match=r"raw\.bin: cannot be read: No such file"):
            write_checkpoint(tmp_path / "out", documents=CONFIG, **options)  # type: ignore[arg-type]  # wrong arguments are the test
    assert names_in(tmp_path) == ["source"]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "source" / "sparse.bin"
    path.parent.mkdir()
    with path.open("wb") as stream:
        stream.truncate(2**23)
    return path


def data_start_of(large: Path, tmp_path: Path, *ranges: tuple[int, int]) -> int:
    tensors = [
        OutputTensor(f"w{number}", "U8", (nbytes,), FileRange(large, start, nbytes))
        for number, (start, nbytes) in enumerate(ranges)
    ]
    write_checkpoint(tmp_path / "out", tensors, CONFIG)
    return read_header(tmp_path / "out" / "model.safetensors").data_start


def test_headers_are_padded_so_that_most_bytes_lie_as_in_the_source(large: Path, tmp_path: Path) -> None:
    # 3 MiB that would ask for another place count less than the 4 MiB before them.
    assert data_start_of(large, tmp_path, (8 + 3 * 2**16, 2**22), (48, 3 * 2**20)) % 2**16 == 8


def test_the_place_of_later_tensors_counts_from_the_start_of_the_data(large: Path, tmp_path: Path) -> None:
    assert data_start_of(large, tmp_path, (0, 16), (1024, 2**22)) % 2**16 == 1024 - 16


@pytest.mark.parametrize("wanted", [(8, 2**22 - 1), (12, 2**22)])
def test_headers_are_not_padded_for_little_or_against_the_alignment(
    wanted: tuple[int, int], large: Path, tmp_path: Path
) -> None:
    assert data_start_of(large, tmp_path, wanted) < 200
