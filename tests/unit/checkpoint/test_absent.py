"""What is not there, and what to type instead."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from spectool.checkpoint.folder import open_checkpoint
from spectool.checkpoint.small_file import read_small, read_small_text
from spectool.errors import SourceError


def hint(path: Path | str) -> str:
    with pytest.raises(SourceError) as error:
        open_checkpoint(Path(path))
    return error.value.hint or ""


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "dflash-zlab").mkdir()
    (tmp_path / "dflash-zlab.txt").write_text("")
    assert hint(tmp_path / "dflash-zlob") == f"Near: {tmp_path / 'dflash-zlab'}."
    assert "org/name" in hint(tmp_path / "something else")
    assert "org/name" in hint(tmp_path / "no" / "such" / "place")


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("https://huggingface.co/z-lab/Qwen3-8B-DFlash-b16", "z-lab/Qwen3-8B-DFlash-b16"),
        ("https://huggingface.co/z-lab/Qwen3-8B-DFlash-b16/tree/main", "z-lab/Qwen3-8B-DFlash-b16@main"),
        ("https://hf.example/a/b/blob/v2/config.json?download=true", "a/b@v2"),
    ],
)
def test_an_address_becomes_a_repository(address: str, meant: str) -> None:
    assert hint(address).endswith(f": {meant}")


def test_folders_within_that_hold_a_model_are_named(tmp_path: Path) -> None:
    assert "org/name" in hint(tmp_path)
    (tmp_path / "run" / "checkpoint-100").mkdir(parents=True)
    (tmp_path / "run" / "checkpoint-100" / "config.json").write_text("{}")
    assert hint(tmp_path).endswith(": " + str(tmp_path / "run/checkpoint-100"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text("{}")
    assert hint(tmp_path).endswith(": " + str(tmp_path / "a"))
    assert "schema check" in hint(tmp_path / "a")


def test_a_small_file_is_bounded_and_never_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_bytes(b"0123456789")
    assert read_small(file, 10) == b"0123456789"
    with pytest.raises(SourceError, match=r"larger than 9 bytes; no list is$"):
        read_small(file, 9, what="no list is")
    with pytest.raises(SourceError, match="no such file") as error:
        read_small(tmp_path / "serve.yml", 9)
    assert str(file) in (error.value.hint or "")
    with pytest.raises(SourceError, match="not a regular file but a folder"):
        read_small(tmp_path, 9)
    with pytest.raises(SourceError, match="not a regular file"):
        read_small(Path("/dev/zero"), 9)
    with pytest.raises(SourceError, match="not a regular file"):
        read_small(Path("/dev/zero"), 9, pipes=True)
    with pytest.raises(SourceError, match="cannot be read: embedded null byte"):
        read_small(tmp_path / "a\0b", 9)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SourceError, match="symbolic links"):
        read_small(tmp_path / "loop", 9)
    file.write_bytes(b"ab\xff")
    with pytest.raises(SourceError, match="not UTF-8 at byte 2"):
        read_small_text(file, 9)


def test_a_pipe_is_read_only_where_a_user_names_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(SourceError, match="not a regular file"):
        read_small(pipe, 9)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"prompt",))
    writer.start()
    assert read_small_text(pipe, 9, pipes=True) == "prompt"
    writer.join()
