from __future__ import annotations

import os
from pathlib import Path

import pytest
from checkpoints import names_in

from spectool.checkpoint import libc


def test_exchange_is_one_step_here(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    if not libc.exchange(one, other):
        pytest.skip("this kernel or file system exchanges no two folders")
    assert (names_in(one), names_in(other)) == (["other"], ["one"])
    with pytest.raises(FileNotFoundError):
        libc.exchange(one, tmp_path / "absent")


def test_writeback_is_begun_here_and_refused_without_an_error(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        os.write(fd, bytes(10_000))
        if not libc.start_writeback(fd, 0, 8192):
            pytest.skip("this kernel or file system begins no writing when asked")
        assert libc.start_writeback(fd, 2**40, 8192)  # 64-bit offsets
        assert not libc.start_writeback(fd, -1, 1)
    finally:
        os.close(fd)
    assert not libc.start_writeback(fd, 0, 1)


def test_a_libc_without_these_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libc, "_function", lambda _: None)
    assert not libc.exchange(tmp_path, tmp_path)
    assert not libc.start_writeback(0, 0, 1)
