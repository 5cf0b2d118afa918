"""What a file says reaches the terminal only where control characters are spelled out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Finished documents and command lines, whose parts are quoted one by one; and what quotes nothing.
QUOTED = {
    ("serve.py", "stdout"),
    ("launch_shown.py", "stdout"),
    ("probe.py", "stdout"),
    ("schema.py", "stdout"),
    ("main.py", "stderr"),
}


def writes(path: Path) -> Iterator[tuple[str, int]]:
    """Stream and line of every direct write of text that is not made printable on the spot."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="write", value=ast.Attribute(attr=("stdout" | "stderr") as stream)),
                args=[argument],
            ):
                plain = isinstance(argument, ast.Constant) or "printable" in ast.dump(argument)
                if not plain:
                    yield stream, node.lineno


@pytest.mark.parametrize("path", sorted((ROOT / "spectool" / "cli").glob("*.py")), ids=lambda path: path.name)
def test_commands_print_what_files_say_through_one_door(path: Path) -> None:
    for stream, line in writes(path):
        assert (path.name, stream) in QUOTED or path.name == "output.py", (
            f"{path.name}:{line}: use tell() or print_text()"
        )
