"""The output folder appears whole or not at all: refusals, replacing, leftovers, and the order of the steps."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checkpoints import names_in

from spectool.checkpoint import staging
from spectool.checkpoint.content import FileRange, Inline
from spectool.checkpoint.writer import OutputTensor, write_checkpoint
from spectool.errors import OutputError

CONFIG = {"config.json": b'{"new": true}\n'}
TENSORS = [OutputTensor("w", "U8", (3,), Inline(b"new"))]
COMPLETE = ["config.json", "model.safetensors"]


def write(out: Path, **options: Any) -> None:
    write_checkpoint(out, TENSORS, CONFIG, **options)


def old_checkpoint(out: Path) -> Path:
    out.mkdir()
    (out / "config.json").write_bytes(b"{}")
    (out / "old.txt").write_bytes(b"old")
    return out


def is_new(out: Path) -> bool:
    return names_in(out) == COMPLETE and (out / "config.json").read_bytes() == CONFIG["config.json"]


@pytest.fixture(params=["exchange", "two renames"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a folder in one step, and as on a file system that cannot."""
    if request.param == "two renames":
        monkeypatch.setattr(staging, "exchange", lambda *_: False)


@pytest.mark.parametrize("options", [{}, {"overwrite": False}])
def test_an_existing_folder_is_kept(options: dict[str, Any], tmp_path: Path) -> None:
    out = old_checkpoint(tmp_path / "out")
    with pytest.raises(OutputError, match="exists already") as refused:
        write(out, **options)
    assert refused.value.hint is not None
    assert "--force" in refused.value.hint
    assert names_in(out) == ["config.json", "old.txt"]
    assert names_in(tmp_path) == ["out"]


def test_an_empty_folder_needs_overwrite_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(OutputError, match="exists already"):
        write(out)
    write(out, overwrite=True)
    assert is_new(out)
    assert names_in(tmp_path) == ["out"]


@pytest.mark.usefixtures("_both_ways")
def test_overwrite_replaces_the_folder_with_all_it_held(tmp_path: Path) -> None:
    out = old_checkpoint(tmp_path / "out")
    write(out, overwrite=True)
    assert is_new(out)
    assert names_in(tmp_path) == ["out"]


@pytest.mark.usefixtures("_both_ways")
def test_the_old_folder_stays_when_the_run_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = old_checkpoint(tmp_path / "out")

    def interrupt(_: object) -> Any:
        assert names_in(out) == ["config.json", "old.txt"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(out, overwrite=True, finish=interrupt)
    assert names_in(out) == ["config.json", "old.txt"]
    assert names_in(tmp_path) == ["out"]


def test_the_old_folder_comes_back_when_the_second_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = old_checkpoint(tmp_path / "out")
    real = os.rename

    def rename(old: Path, new: Path) -> None:
        if "partial" in old.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(old, new)

    monkeypatch.setattr(staging, "exchange", lambda *_: False)
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OutputError, match="Input/output error"):
        write(out, overwrite=True)
    assert names_in(out) == ["config.json", "old.txt"]
    assert names_in(tmp_path) == ["out"]


def test_a_folder_that_is_no_checkpoint_is_never_replaced(tmp_path: Path) -> None:
    out = tmp_path / "home"
    out.mkdir()
    (out / "thesis.tex").touch()
    with pytest.raises(OutputError, match=r"holds 1 entries and no config\.json"):
        write(out, overwrite=True)
    assert names_in(out) == ["thesis.tex"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_and_links_are_never_replaced(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "dangling").symlink_to("absent")
    (tmp_path / "link").symlink_to(old_checkpoint(tmp_path / "old"))
    for name, message in (("file", "exists and is a file"), ("dangling", "is a symlink"), ("link", "is a symlink")):
        with pytest.raises(OutputError, match=message):
            write(tmp_path / name, overwrite=overwrite)
    assert names_in(tmp_path) == ["dangling", "file", "link", "old"]
    assert names_in(tmp_path / "old") == ["config.json", "old.txt"]


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(OutputError, match="Not a directory"):
        write(tmp_path / "file" / "out")
    with pytest.raises(OutputError, match="Not a directory"):
        write(tmp_path / "file" / "deeper" / "out")


def test_an_output_that_came_into_being_meanwhile_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def another_run(_: object) -> dict[str, bytes]:
        old_checkpoint(out)
        return {}

    with pytest.raises(OutputError, match="exists already"):
        write(out, finish=another_run)
    assert names_in(out) == ["config.json", "old.txt"]
    assert names_in(tmp_path) == ["out"]


def leftover(parent: Path, name: str) -> Path:
    path = parent / name
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"half")
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


def test_leftovers_of_killed_runs_are_removed_and_only_those(tmp_path: Path) -> None:
    leftover(tmp_path, ".out.spectool-partial-0123abcd")
    running = leftover(tmp_path, ".out.spectool-partial-99999999")
    kept = [
        ".out.spectool-partial-0123abcde",
        ".out.spectool-partial-XXXXXXXX",
        ".other.spectool-partial-0123abcd",
        ".outXspectool-partial-0123abcd",
        "out.spectool-partial-0123abcd",
    ]
    for name in kept:
        leftover(tmp_path, name)
    (tmp_path / ".out.spectool-partial-00000000").write_bytes(b"a file")
    with locked(running):
        write(tmp_path / "out")
    assert names_in(tmp_path) == sorted([*kept, running.name, ".out.spectool-partial-00000000", "out"])


def test_leftovers_stay_where_no_lock_can_tell_them_from_a_running_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    path = leftover(tmp_path, ".out.spectool-partial-0123abcd")
    write(tmp_path / "out")
    assert names_in(tmp_path) == [path.name, "out"]


def test_a_leftover_does_not_count_against_the_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = leftover(tmp_path, ".out.spectool-partial-0123abcd")

    def statvfs(_: object) -> Any:
        class Status:
            f_bavail, f_frsize = 0 if path.exists() else 1000, 512

        return Status

    monkeypatch.setattr(os, "statvfs", statvfs)
    write(tmp_path / "out")


@pytest.mark.parametrize("options", [{}, {"overwrite": True}])
def test_a_folder_moved_aside_by_a_killed_run_comes_back(options: dict[str, Any], tmp_path: Path) -> None:
    aside = old_checkpoint(tmp_path / "out").rename(tmp_path / ".out.spectool-replaced-0123abcd")
    leftover(tmp_path, ".out.spectool-partial-0123abcd")
    with locked(aside):  # the run is between its two renames
        write(tmp_path / "neighbour")
        assert aside.exists()
    if options:
        write(tmp_path / "out", **options)
        assert is_new(tmp_path / "out")
    else:
        with pytest.raises(OutputError, match="exists already"):
            write(tmp_path / "out")
        assert names_in(tmp_path / "out") == ["config.json", "old.txt"]
    assert names_in(tmp_path) == ["neighbour", "out"]


def test_a_folder_moved_aside_goes_when_its_successor_is_there(tmp_path: Path) -> None:
    old_checkpoint(tmp_path / "out").rename(tmp_path / ".out.spectool-replaced-0123abcd")
    old_checkpoint(tmp_path / "out")
    write(tmp_path / "out", overwrite=True)
    assert names_in(tmp_path) == ["out"]


def test_a_clean_up_between_mkdir_and_lock_costs_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, removed = fcntl.flock, []

    def flock(fd: int, operation: int) -> None:
        if not removed:
            (found,) = tmp_path.glob(".out.spectool-partial-*")
            found.rmdir()
            removed.append(found)
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    write(tmp_path / "out")
    assert removed
    assert is_new(tmp_path / "out")


class Recorder:
    """Records what reaches the file system, with the name each descriptor was opened under."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, str]] = []
        self._names: dict[int, str] = {}
        real_open, real_fsync, real_rename = os.open, os.fsync, os.rename

        def open_(path: Any, flags: int, *rest: Any) -> int:
            fd = real_open(path, flags, *rest)
            self._names[fd] = Path(path).name
            return fd

        def fsync(fd: int) -> None:
            self.events.append(("fsync", self._names[fd]))
            real_fsync(fd)

        def rename(old: Any, new: Any) -> None:
            self.events.append(("rename", f"{Path(old).name} {Path(new).name}"))
            real_rename(old, new)

        def exchange(one: Path, other: Path) -> bool:
            self.events.append(("exchange", f"{one.name} {other.name}"))
            aside = one.with_name("aside")  # as a kernel does it; the one that runs this may not
            for old, new in ((one, aside), (other, one), (aside, other)):
                real_rename(old, new)
            return True

        monkeypatch.setattr(os, "open", open_)
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "rename", rename)
        monkeypatch.setattr(staging, "exchange", exchange)
        for call, position in (("write", 0), ("pwrite", 0), ("copy_file_range", 1)):
            self._record(monkeypatch, call, position)

    def _record(self, monkeypatch: pytest.MonkeyPatch, call: str, position: int) -> None:
        real = getattr(os, call)

        def recorded(*arguments: Any) -> Any:
            self.events.append(("write", self._names[arguments[position]]))
            return real(*arguments)

        monkeypatch.setattr(os, call, recorded)


@pytest.mark.parametrize("overwrite", [False, True])
def test_every_byte_is_synced_before_the_folder_appears(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source" / "raw.bin"
    source.parent.mkdir()
    source.write_bytes(b"0123456789")
    parent = tmp_path / "new" / "parent"
    if overwrite:
        parent.mkdir(parents=True)
        old_checkpoint(parent / "out")
    tensors = [OutputTensor(name, "U8", (10,), FileRange(source, 0, 10)) for name in ("w1", "w2")]
    recorder = Recorder(monkeypatch)
    write_checkpoint(
        parent / "out",
        tensors,
        {"config.json": b"{}", "zz": b"zz"},
        shard_bytes=10,
        overwrite=overwrite,
        side_files={"side": source},
        finish=lambda _: {"provenance.json": b"{}"},
    )
    files = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "side",
        "zz",
        "config.json",
        "provenance.json",
    ]
    # Consecutive writes to one file count once.
    steps = [event for n, event in enumerate(recorder.events) if n == 0 or recorder.events[n - 1] != event]
    staged = steps[2 * len(files)][1]
    assert staged.startswith(".out.spectool-partial-")
    expected = [(what, file) for file in files for what in ("write", "fsync")]
    expected += [("fsync", staged), ("exchange" if overwrite else "rename", f"{staged} out"), ("fsync", "parent")]
    if not overwrite:  # the folders made on the way are entries of their parents
        expected += [("fsync", tmp_path.name), ("fsync", "new")]
    assert steps == expected
