"""A record names the commits that source and verifier were read at, and a replay needs nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import spectool
from loopback_hub import LoopbackHub, loopback
from mutations import VERIFIER


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    with loopback(monkeypatch, tmp_path) as running:
        yield running


@pytest.fixture
def out(hub: LoopbackHub, pairs: Path, tmp_path: Path) -> Path:
    source = shutil.copytree(pairs / "dflash-zlab", tmp_path / "made")
    (source / "LICENSE").write_text("text\n")
    (source / "README.md").write_text("---\nlicense: mit\n---\n")
    hub.add_folder("org/drafter", source)
    hub.add_folder("org/verifier", VERIFIER)
    done = spectool(
        "convert", "org/drafter@main", str(tmp_path / "out"), "--verifier", "org/verifier", "--card", "me/new"
    )
    assert done.code == 0, done.err
    return tmp_path / "out"


def test_the_commits_are_recorded(out: Path) -> None:
    record = json.loads((out / "provenance.json").read_text())
    for what in ("source", "verifier"):
        name = "drafter" if what == "source" else "verifier"
        assert record[what]["repository"] == f"org/{name}"
        assert len(record[what]["commit"]) == 40
        assert len(record[what]["sha256"]) == 64
    assert record["licence"] == "mit"
    assert (out / "LICENSE").read_text() == "text\n"
    assert 'base_model:\n- "org/drafter"\n- "org/verifier"\n' in (out / "README.md").read_text()


def test_a_replay_fetches_what_the_record_names(out: Path, tmp_path: Path) -> None:
    again = spectool("convert", str(tmp_path / "again"), "--replay", str(out))
    assert again.code == 0, again.err
    names = sorted(path.name for path in out.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


def test_a_folder_may_stand_for_the_commit(out: Path, tmp_path: Path) -> None:
    """Its content is proved, the record's word for the commit is not."""
    arguments = (str(tmp_path / "made"), str(tmp_path / "again"), "--verifier", str(VERIFIER), "--replay", str(out))
    again = spectool("convert", *arguments)
    assert again.code == 0, again.err
    assert (tmp_path / "again" / "provenance.json").read_bytes() == (out / "provenance.json").read_bytes()


def test_another_commit_is_not_the_recorded_one(hub: LoopbackHub, out: Path, tmp_path: Path) -> None:
    (tmp_path / "made" / "NOTICE").write_text("new\n")
    hub.add_folder("org/moved", tmp_path / "made")
    moved = spectool("convert", "org/moved", str(tmp_path / "again"), "--replay", str(out))
    assert moved.code == 1
    assert "this source is commit" in moved.err
