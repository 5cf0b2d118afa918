"""Write then read gives the same bytes, for any tensors and any shard size."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

from checkpoints import read_back_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from spectool.checkpoint import copying, layout
from spectool.checkpoint.content import Content, FileRange, Inline, PermutedColumns, Zeros
from spectool.checkpoint.folder import open_checkpoint
from spectool.checkpoint.writer import OutputTensor, write_checkpoint

RAW = bytes(range(256)) * 4


@st.composite
def contents(draw: st.DrawFn, file: Path) -> tuple[Content, bytes]:
    """A content, and the bytes it stands for."""
    kind = draw(st.sampled_from([FileRange, Zeros, Inline, PermutedColumns]))
    start = draw(st.integers(0, 512))
    if kind is FileRange:
        nbytes = draw(st.integers(0, 512))
        return FileRange(file, start, nbytes), RAW[start : start + nbytes]
    if kind is Zeros:
        nbytes = draw(st.integers(0, 512))
        return Zeros(nbytes), bytes(nbytes)
    if kind is Inline:
        data = draw(st.binary(max_size=40))
        return Inline(data), data
    rows, block = draw(st.integers(0, 8)), draw(st.integers(0, 9))
    order = tuple(draw(st.permutations(range(draw(st.integers(0, 5))))))
    width = block * len(order)
    expected = b"".join(RAW[start + row * width + index * block :][:block] for row in range(rows) for index in order)
    return PermutedColumns(file, start, rows, block, order), expected


@given(st.data(), st.one_of(st.integers(1, 2000), st.just(5_000_000_000)), st.sampled_from([1, 8, 64, 2**16]))
@settings(max_examples=60, deadline=None)
def test_write_then_read(data: st.DataObject, shard_bytes: int, block: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(copying, "BLOCK_BYTES", block),  # which bytes are copied in the kernel
        mock.patch.object(layout, "BLOCK_BYTES", max(block, 8)),
        mock.patch.object(layout, "_WORTH_PADDING", 1),
    ):
        root = Path(folder)
        source = root / "source" / "raw.bin"
        source.parent.mkdir()
        source.write_bytes(RAW)
        names = data.draw(st.lists(st.text("ab.é", min_size=1, max_size=4), unique=True, max_size=8))
        made = {name: data.draw(contents(source)) for name in names}
        tensors = [OutputTensor(name, "U8", (content.nbytes,), content) for name, (content, _) in made.items()]
        written = write_checkpoint(root / "out", tensors, {"config.json": b"{}"}, shard_bytes=shard_bytes)
        expected = {name: ("U8", (len(raw),), raw) for name, (_, raw) in made.items()}
        assert read_back_folder(root / "out") == expected
        found = open_checkpoint(root / "out")
        assert {name: found.read(name) for name in found.tensors} == {name: raw for name, (_, raw) in made.items()}
        assert found.total_bytes == sum(len(raw) for _, raw in made.values())
        for file in written:
            assert (root / "out" / file.name).stat().st_size == file.nbytes
            if file.name in found.files:
                own = [name for name, tensor in found.tensors.items() if tensor.file.name == file.name]
                assert len(own) <= 1 or sum(len(made[name][1]) for name in own) <= shard_bytes
