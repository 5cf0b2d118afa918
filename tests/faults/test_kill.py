"""A writer killed at any step leaves nothing that could be taken for an output, and can be repeated.

The child process counts the calls that open, close or change files and kills itself, with a signal nobody can catch,
before or after the n-th one. n runs from 1 until a run comes through.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import names_in, read_back_folder

from spectool.checkpoint import copying, staging
from spectool.checkpoint.content import FileRange, Inline, Zeros
from spectool.checkpoint.writer import OutputTensor, write_checkpoint

CALLS = ("open", "write", "pwrite", "copy_file_range", "fsync", "mkdir", "rename", "unlink", "rmdir", "close")
NEW = {"w1": b"0123456789", "w2": b"23456789", "w3": bytes(5), "w4": b"in memory"}
FILES = [
    "config.json",
    "model-00001-of-00003.safetensors",
    "model-00002-of-00003.safetensors",
    "model-00003-of-00003.safetensors",
    "model.safetensors.index.json",
    "provenance.json",
]


def convert(source: Path, out: Path, *, overwrite: bool) -> None:
    tensors = [
        OutputTensor("w1", "U8", (10,), FileRange(source, 0, 10)),
        OutputTensor("w2", "U8", (8,), FileRange(source, 2, 8)),
        OutputTensor("w3", "U8", (5,), Zeros(5)),
        OutputTensor("w4", "U8", (9,), Inline(b"in memory")),
    ]
    write_checkpoint(
        out,
        tensors,
        {"config.json": b"{}"},
        shard_bytes=14,
        overwrite=overwrite,
        finish=lambda _: {"provenance.json": b"{}"},
    )


def run_until_killed(work: Callable[[], None], n: int, *, before: bool) -> bool:
    """Fork, work, and die at the n-th call; returns whether the work came to its end first."""
    pid = os.fork()
    if pid == 0:  # nothing of pytest may run in the child: it ends in _exit or by the signal
        status = 1
        try:
            _arm(n, before=before)
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.waitstatus_to_exitcode(status) == 0
    return True


def _arm(n: int, *, before: bool) -> None:
    counter = itertools.count(1)  # the digest's thread counts too

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            number = next(counter)
            if number == n and before:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return real(*arguments, **options)
            finally:  # also where the kernel cannot do it, and other calls follow
                if number == n:
                    os.kill(os.getpid(), signal.SIGKILL)

        return call

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))
    staging.exchange = wrap(staging.exchange)


def is_complete(out: Path) -> bool:
    return names_in(out) == FILES and {n: data for n, (_, _, data) in read_back_folder(out).items()} == NEW


def can_exchange(tmp_path: Path) -> bool:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    return staging.exchange(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize("before", [True, False], ids=["before the call", "after the call"])
@pytest.mark.parametrize("case", ["new", "replace", "replace in two renames"])
def test_killed_at_every_step(case: str, before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source" / "raw.bin"
    source.parent.mkdir()
    source.write_bytes(NEW["w1"])
    overwrite = case != "new"
    monkeypatch.setattr(copying, "BLOCK_BYTES", 1)  # so that even these few bytes are copied in the kernel
    if case == "replace in two renames":
        monkeypatch.setattr(staging, "exchange", lambda *_: False)
    elif case == "replace" and not can_exchange(tmp_path):
        pytest.skip("this kernel or file system exchanges no two folders")
    n, finished, kinds = 0, False, set()
    while not finished:
        n += 1
        place = tmp_path / f"run{n}"
        place.mkdir()
        out = place / "out"
        if overwrite:
            out.mkdir()
            (out / "config.json").write_bytes(b"old")

        def work(out: Path = out) -> None:
            convert(source, out, overwrite=overwrite)

        finished = run_until_killed(work, n, before=before)

        # Beside `out` there are only folders under names nobody would load from.
        others = [name for name in names_in(place) if name != "out"]
        assert all(name.startswith((".out.spectool-partial-", ".out.spectool-replaced-")) for name in others)
        if finished:
            assert others == []
        state = "absent" if not out.exists() else "complete" if is_complete(out) else "old"
        kinds.add(state)
        if state == "old":
            assert overwrite
            assert names_in(out) == ["config.json"]
            assert (out / "config.json").read_bytes() == b"old"
        elif state == "absent" and overwrite:
            # Between two renames: the old folder waits beside, whole.
            assert case == "replace in two renames"
            (aside,) = place.glob(".out.spectool-replaced-*")
            assert (aside / "config.json").read_bytes() == b"old"

        # The same command again: nothing is in its way, and nothing of the killed run is left.
        convert(source, out, overwrite=overwrite or state == "complete")
        assert is_complete(out)
        assert names_in(place) == ["out"]
    assert n > 40
    assert "complete" in kinds
    assert kinds >= ({"old"} if overwrite else {"absent"})
    if case == "replace in two renames":
        assert "absent" in kinds
