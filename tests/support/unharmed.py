"""Run a command under a fault, and hold what is left against the promises: nothing lost, half written, shown or told.

A fault is distinct by its place and its kind. `place` is where it strikes: the file that is damaged, or the line of
spectool that called the operating system.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import Outcome, spectool

SECRET = "hf_0123456789abcdefSECRET"
# What drives a terminal, or turns the direction of writing: never printed as it is.
ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PARTIAL = re.compile(r"\.[^/]+\.spectool-(partial|replaced)-[0-9a-f]{8}")


@dataclass(frozen=True)
class Fault:
    """One fault that was survived."""

    place: str
    kind: str


SURVIVED: set[Fault] = set()


def digest(root: Path) -> dict[str, str]:
    """Names and contents of everything below a folder; links by what they say."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.stat().st_size < 2**26 else "large"
    return found


def hold(
    place: str,
    kind: str,
    arguments: Sequence[str],
    *,
    sources: Sequence[Path],
    out: Path | None = None,
    codes: Sequence[int] = (1, 2),
    monkeypatch: pytest.MonkeyPatch | None = None,
) -> Outcome:
    """Run a command that must fail well.

    Args:
        place: where the fault strikes.
        kind: what it is.
        arguments: the command line.
        sources: folders that must be the same afterwards.
        out: the output folder, which must not be there afterwards, unless it is whole.
        codes: exit codes that are right.
        monkeypatch: puts a token into the environment that must not be printed.

    """
    before = {folder: digest(folder) for folder in sources}
    if monkeypatch is not None:
        monkeypatch.setenv("HF_TOKEN", SECRET)
    done = spectool(*arguments)
    told = done.out + done.err
    assert done.code in codes, f"exit code {done.code}\n{told}"
    assert "Traceback" not in told
    assert SECRET not in told
    assert not ACTING.search(told), ACTING.search(told)
    if done.code == 2:
        assert done.err.startswith(("error", "note", "configuration")) or "error" in done.err.lower(), told
    for folder, state in before.items():
        assert digest(folder) == state, f"{folder} was changed"
    if out is not None and done.code != 0:
        # Only a fault after the renaming leaves it there: then it is whole, which its record proves.
        if out.exists():
            assert spectool("convert", "--verify", str(out)).code == 0, f"{out} is there, not whole, and looks so"
        left = [path.name for path in out.parent.iterdir() if path.name.startswith(f".{out.name}")]
        assert all(PARTIAL.fullmatch(name) for name in left), left
    SURVIVED.add(Fault(place, kind))
    return done
