"""What happens while bytes are copied: fallbacks of the kernel copy, sources that change, disks that fill up."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import names_in, read_back

from spectool.checkpoint import copying, digest, layout, writer
from spectool.checkpoint.content import FileRange, PermutedColumns, Zeros, scaled_bf16
from spectool.checkpoint.writer import OutputTensor, write_checkpoint
from spectool.errors import OutputError, SourceError

CONFIG = {"config.json": b"{}\n"}
SIZE = 50_000


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "BUFFER_BYTES", 4_000)
    monkeypatch.setattr(writer, "BUFFER_BYTES", 4_000)
    monkeypatch.setattr(copying, "KERNEL_BYTES", 8_000)
    monkeypatch.setattr(copying, "PIECE_BYTES", 2_000)
    for module in (copying, layout):
        monkeypatch.setattr(module, "BLOCK_BYTES", 1_000)
    monkeypatch.setattr(layout, "_WORTH_PADDING", 1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source" / "raw.bin"
    path.parent.mkdir()
    path.write_bytes(random.Random(3).randbytes(SIZE))  # noqa: S311 - test data, no secret
    return path


def convert(source: Path, tmp_path: Path, **options: Any) -> None:
    # The first lies as in its source, modulo a block, and is copied in the kernel; the second is not.
    tensors = [
        OutputTensor("w1", "U8", (40_000,), FileRange(source, 8, 40_000)),
        OutputTensor("w2", "U8", (20_000,), FileRange(source, 29_900, 20_000)),
    ]
    written = write_checkpoint(tmp_path / "out", tensors, CONFIG, **options)
    raw = source.read_bytes()
    found = read_back(tmp_path / "out" / "model.safetensors")
    assert found["w1"][2] == raw[8:40_008]
    assert found["w2"][2] == raw[29_900:49_900]
    assert written[0].sha256 == hashlib.sha256((tmp_path / "out" / "model.safetensors").read_bytes()).hexdigest()


def nothing_is_left(tmp_path: Path) -> None:
    assert names_in(tmp_path) == ["source"]


@pytest.mark.parametrize(
    "code",
    [errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EIO, errno.EBADF, errno.ETXTBSY],
)
def test_where_the_kernel_will_not_copy_the_buffer_does(
    code: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def refuse(*arguments: int) -> int:
        calls.append(arguments)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "copy_file_range", refuse)
    convert(source, tmp_path)
    assert calls


def test_the_kernel_stops_copying_half_way(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.copy_file_range, []

    def sometimes(*arguments: int) -> int:
        calls.append(arguments)
        if len(calls) % 2:
            raise OSError(errno.EXDEV, "no")
        return real(*arguments)

    monkeypatch.setattr(os, "copy_file_range", sometimes)
    convert(source, tmp_path)


def test_only_what_lies_alike_in_both_files_is_copied_in_the_kernel(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def recorded(reading: int, writing: int, nbytes: int, start: int, position: int) -> int:
        """Copy as a kernel does; the one that runs this may not, for these files."""
        count = os.pwrite(writing, os.pread(reading, nbytes, start), position)
        calls.append((start, position, count))
        return count

    monkeypatch.setattr(os, "copy_file_range", recorded)
    convert(source, tmp_path)
    assert all(start % 1_000 == position % 1_000 == 0 for start, position, _ in calls)
    assert sum(count for *_, count in calls) == 39_008  # from the first block of `w1` that is whole to its end
    assert max(count for *_, count in calls) == 8_000


def test_the_disk_begins_while_more_is_copied(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[tuple[int, int]] = []
    monkeypatch.setattr(copying, "start_writeback", lambda _, start, nbytes: ranges.append((start, nbytes)))
    convert(source, tmp_path)
    end = 0
    for start, nbytes in ranges:  # whole blocks, none twice: a page that is written to again goes to the disk again
        assert start == end
        assert nbytes >= 8_000
        end = start + nbytes
        assert end % 1_000 == 0
    assert end > 50_000


def test_short_copies(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.copy_file_range
    monkeypatch.setattr(os, "copy_file_range", lambda s, d, n, *o: real(s, d, min(n, 777), *o))
    convert(source, tmp_path)


def test_short_reads_and_writes(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write, write_all = os.preadv, os.pwrite, os.write
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: read(fd, [views[0][:501]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:333], at))
    monkeypatch.setattr(os, "write", lambda fd, data: write_all(fd, data[:1]))
    convert(source, tmp_path)


def test_no_bytes_from_a_file_system_that_cannot_copy(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some network and virtual file systems answer 0 though bytes are left.
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    convert(source, tmp_path)


def test_a_source_that_shrinks(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.copy_file_range

    def shrink(*arguments: int) -> int:
        os.truncate(source, 20_000)
        return real(*arguments)

    monkeypatch.setattr(os, "copy_file_range", shrink)
    with pytest.raises(SourceError, match="changed its size from 50000 to 20000 bytes while it was copied"):
        convert(source, tmp_path)
    nothing_is_left(tmp_path)


def change_after(source: Path, change: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    real, fired = os.fsync, []

    def fsync(fd: int) -> None:
        if not fired:  # the weights are complete
            fired.append(fd)
            change()
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)


def grow(source: Path) -> None:
    with source.open("ab") as stream:
        stream.write(b"!")


def rewrite(source: Path) -> None:
    status = source.stat()
    with source.open("r+b") as stream:
        stream.write(b"!")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


@pytest.mark.parametrize(
    ("change", "message"),
    [(grow, "changed its size from 50000 to 50001 bytes"), (rewrite, "was written to while it was copied")],
)
def test_a_source_that_changes_afterwards(
    change: Callable[[Path], None], message: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_after(source, lambda: change(source), monkeypatch)
    with pytest.raises(SourceError, match=message):
        convert(source, tmp_path)
    nothing_is_left(tmp_path)


def test_a_source_may_get_another_link_or_mode_meanwhile(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        os.link(source, source.parent / "another")
        source.chmod(0o400)

    change_after(source, change, monkeypatch)
    convert(source, tmp_path)


def test_a_side_file_that_grows_is_noticed(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    side = source.parent / "tokenizer.json"
    side.write_bytes(b"{}")
    change_after(source, lambda: grow(side), monkeypatch)
    with pytest.raises(SourceError, match=r"tokenizer\.json: changed its size from 2 to 3"):
        convert(source, tmp_path, side_files={"tokenizer.json": side})
    nothing_is_left(tmp_path)


FAILURES = {
    "kernel copy": ("copy_file_range", errno.ENOSPC),
    "kernel copy, quota": ("copy_file_range", errno.EDQUOT),
    "kernel copy, file size": ("copy_file_range", errno.EFBIG),
    "write": ("pwrite", errno.ENOSPC),
    "document": ("write", errno.ENOSPC),
    "late report": ("fsync", errno.EIO),
    "late quota": ("fsync", errno.EDQUOT),
    "rename": ("rename", errno.EACCES),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failing_output_names_the_need_and_leaves_nothing(
    case: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, code = FAILURES[case]

    def fail(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OutputError, match=os.strerror(code)) as refused:
        convert(source, tmp_path)
    assert str(tmp_path / "out") in refused.value.message
    assert refused.value.hint is not None
    assert "The output needs 6" in refused.value.hint
    nothing_is_left(tmp_path)


def test_a_failing_source_is_no_output_error(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.preadv

    def fail(*arguments: Any) -> int:
        if threading.current_thread() is threading.main_thread():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments)

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(SourceError, match=r"raw\.bin: cannot be read: Input/output error"):
        convert(source, tmp_path)
    nothing_is_left(tmp_path)


@pytest.mark.parametrize("exception", [KeyboardInterrupt, RuntimeError, SystemExit])
@pytest.mark.parametrize("where", ["copy_file_range", "fsync", "rename"])
def test_any_exception_leaves_nothing(
    exception: type[BaseException], where: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> int:
        raise exception

    monkeypatch.setattr(os, where, interrupt)
    with pytest.raises(exception):
        convert(source, tmp_path)
    nothing_is_left(tmp_path)


def test_exceptions_of_callbacks_leave_nothing(source: Path, tmp_path: Path) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    for options in ({"progress": fail}, {"finish": fail}):
        with pytest.raises(ZeroDivisionError):
            convert(source, tmp_path, **options)
        nothing_is_left(tmp_path)


def test_the_writer_waits_for_a_slow_digest(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lags: list[int] = []
    monkeypatch.setattr(writer, "Digests", lambda: digest.Digests(max_lag=5_000))
    real = digest.Digests.advanced

    def advanced(self: digest.Digests, file: digest.Followed, nbytes: int) -> None:
        real(self, file, nbytes)
        lags.append(self._lag)

    monkeypatch.setattr(digest.Digests, "advanced", advanced)
    convert(source, tmp_path)
    assert lags
    assert max(lags) <= 5_000


def test_a_digest_that_fails_stops_the_writer(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.preadv

    def fail(*arguments: Any) -> int:
        if threading.current_thread() is threading.main_thread():
            return real(*arguments)
        raise OSError(errno.EIO, "the disk lost it")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OutputError, match="the disk lost it"):
        convert(source, tmp_path)
    nothing_is_left(tmp_path)


def test_memory_does_not_grow_with_the_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # buffers of real size
    path = tmp_path / "source" / "sparse.bin"
    path.parent.mkdir()
    size = 32 * 2**20
    with path.open("wb") as stream:
        stream.truncate(size)
    tensors = [
        OutputTensor("a", "U8", (size,), FileRange(path, 0, size)),
        OutputTensor("b", "U8", (size,), Zeros(size)),
        OutputTensor("c", "U8", (size,), PermutedColumns(path, 0, 2**10, 2**14, (1, 0))),
        OutputTensor("d", "BF16", (size // 4,), scaled_bf16(path, 0, size // 2, 2.0)),
    ]
    tracemalloc.start()
    try:
        write_checkpoint(tmp_path / "out", tensors, CONFIG)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 * 2**20
