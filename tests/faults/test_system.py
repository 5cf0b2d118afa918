"""The operating system refuses: every call that `convert` makes fails once, in each way that such a call can fail."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import spectool
from mutations import PAIRS, VERIFIER
from unharmed import SURVIVED, Fault, hold

from spectool.checkpoint import copying, staging

CALLS = ("open", "write", "pwrite", "copy_file_range", "fsync", "mkdir", "rename", "pread", "preadv", "stat")
KINDS = {
    "disk full": errno.ENOSPC,
    "read-only": errno.EROFS,
    "not permitted": errno.EACCES,
    "broken disk": errno.EIO,
    "quota": errno.EDQUOT,
    "too many open files": errno.EMFILE,
}
SPECTOOL = str(Path(staging.__file__).parents[1])


class Injector:
    """Lets the n-th call from spectool's own code fail; remembers where that was."""

    def __init__(self, number: int, code: int) -> None:
        self.number, self.code = number, code
        self.counter = itertools.count(1)
        self.place: str | None = None

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            place = _place()
            if place is not None and next(self.counter) == self.number:
                self.place = f"{place} {name}"
                raise OSError(self.code, os.strerror(self.code))
            return real(*arguments, **options)

        return call


def _place() -> str | None:
    """The innermost line of spectool on the stack."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(SPECTOOL):
            return f"{Path(frame.f_code.co_filename).relative_to(SPECTOOL).as_posix()}:{frame.f_lineno}"
        frame = frame.f_back
    return None


# `make faults` goes through all of them; the first finds what the others find, nearly always.
CHOSEN = KINDS if os.environ.get("SPECTOOL_FAULTS") == "all" else ["disk full"]


@pytest.mark.parametrize("kind", CHOSEN)
def test_every_call_of_a_conversion_fails_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    shutil.copytree(PAIRS / "dflash-zlab", source)
    reached: set[str] = set()
    number = 0
    while True:
        number += 1
        out = tmp_path / "outputs" / f"out{number}"
        out.parent.mkdir(exist_ok=True)
        injector = Injector(number, KINDS[kind])
        command = ["convert", str(source), str(out), "--verifier", str(VERIFIER), "--set", "verifier=x/tiny-verifier"]
        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, injector.wrap(name, getattr(os, name)))
            hold("convert", kind, command, sources=[source], out=out, codes=(0, 1, 2))
        if injector.place is None:
            break
        reached.add(injector.place)
        shutil.rmtree(out, ignore_errors=True)
    assert len(reached) > 15
    SURVIVED.update(Fault(place, kind) for place in reached)


MOMENTS = ["mkdir", "copy_file_range", "fsync", "rename"]


@pytest.mark.parametrize("forced", [False, True], ids=["new", "forced"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_two_runs_into_one_folder(moment: str, forced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run begins and ends while the first one is at a step: what is there afterwards is whole."""
    source, out = tmp_path / "source", tmp_path / "outputs" / "out"
    shutil.copytree(PAIRS / "dflash-zlab", source)
    out.parent.mkdir()
    command = ["convert", str(source), str(out), "--verifier", str(VERIFIER), "--set", "verifier=x/tiny-verifier"]
    command += ["--force"] if forced else []
    monkeypatch.setattr(copying, "BLOCK_BYTES", 1)  # so that even these few bytes are copied in the kernel
    others: list[int] = []
    real = getattr(os, moment)

    def second(*arguments: Any, **options: Any) -> Any:
        if not others:
            others.append(-1)
            others[0] = spectool(*command).code
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, second)
        done = hold("convert", f"two runs, the second at {moment}", command, sources=[source], out=out, codes=(0, 2))
    assert others == [0]
    assert done.code == (0 if forced and moment != "rename" else 2)
    assert spectool("convert", "--verify", str(out)).code == 0
    assert [path.name for path in out.parent.iterdir()] == ["out"]


STEPS = {os: ("fsync", "replace", "chmod"), io: ("open",)}


@pytest.mark.parametrize("kind", CHOSEN)
def test_every_call_of_an_upgrade_fails_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`schema upgrade --write` leaves the old file or the new one, and can be repeated."""
    made = tmp_path / "made"
    command = ["convert", str(PAIRS / "dflash-zlab"), str(made), "--verifier", str(VERIFIER), "--set", "verifier=x/y"]
    assert spectool(*command).code == 0
    config = json.loads((made / "config.json").read_text(encoding="utf-8"))
    config["model_type"] = "qwen3"
    (made / "provenance.json").unlink()
    old = json.dumps(config, indent=2).encode()
    (made / "config.json").write_bytes(old)
    ends: set[bytes] = set()
    reached: set[str] = set()
    for number in itertools.count(1):
        folder = tmp_path / f"run{number}"
        shutil.copytree(made, folder)
        injector = Injector(number, KINDS[kind])
        command = ["schema", "upgrade", str(folder), "--write"]
        with monkeypatch.context() as patch:
            for module, names in STEPS.items():
                for name in names:
                    patch.setattr(module, name, injector.wrap(name, getattr(module, name)))
            hold("schema upgrade", kind, command, sources=[], codes=(0, 1, 2))
        ends.add((folder / "config.json").read_bytes())
        assert not list(folder.glob(".*"))
        assert spectool(*command).code == 0
        assert json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type") != "qwen3"
        assert len(json.loads((folder / "spectool-upgrades.json").read_text(encoding="utf-8"))) == 1
        shutil.rmtree(folder)
        if injector.place is None:
            break
        reached.add(injector.place)
    assert len(ends) == 2
    assert old in ends
    SURVIVED.update(Fault(place, kind) for place in reached)


@pytest.mark.parametrize("kind", ["half as long", "gone", "other bytes"])
def test_the_source_changes_underneath(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(PAIRS / "dflash-zlab", source)
    weights = source / "model.safetensors"
    whole = weights.read_bytes()
    real = os.open

    def change(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if ".out.spectool-partial-" in str(path) and str(path).endswith(".safetensors"):
            weights.unlink()
            if kind != "gone":
                weights.write_bytes(whole[: len(whole) // 2] if kind == "half as long" else whole[::-1])
        return real(path, flags, *arguments, **options)

    command = ["convert", str(source), str(out), "--verifier", str(VERIFIER), "--set", "verifier=x/tiny-verifier"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", change)
        done = hold("the source's weights", kind, command, sources=[], out=out, codes=(0, 2))
    if done.code == 0:  # the file was open already: what was read is what the header was read from
        assert spectool("convert", "--verify", str(out)).code == 0
    else:
        assert "model.safetensors" in done.err
