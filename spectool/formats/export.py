"""Write `schemas/` from the models: `python -m spectool.formats.export [FOLDER]`.

With `--check` nothing is written: differences go to standard output and the exit code is 1.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from spectool.formats.schemas import SUFFIX, published, text_of

HERE = Path(__file__).resolve().parents[2] / "schemas"


def differences(folder: Path) -> list[str]:
    """Return a diff per file that is not what the models say, files too many included."""
    expected = {item.filename: text_of(item) for item in published().values()}
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob(f"*{SUFFIX}")}
    diffs = []
    for name in sorted(expected.keys() | found.keys()):
        old, new = found.get(name, ""), expected.get(name, "")
        if old != new:
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"schemas/{name}", "models", lineterm="")
            diffs.append("\n".join(lines))
    return diffs


def export(folder: Path) -> list[Path]:
    """Write every schema into a folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for item in published().values():
        path = folder / item.filename
        path.write_text(text_of(item), encoding="utf-8")
        paths.append(path)
    return paths


def main(arguments: list[str]) -> int:
    """Write or check; return the exit code."""
    names = [item for item in arguments if not item.startswith("-")]
    folder = Path(names[0]) if names else HERE
    if unknown := [item for item in arguments if item.startswith("-") and item != "--check"]:
        sys.stderr.write(f"error: unknown option {unknown[0]}\n")
        return 2
    if "--check" not in arguments:
        export(folder)
        return 0
    diffs = differences(folder)
    sys.stdout.write("".join(f"{diff}\n" for diff in diffs))
    if diffs:
        sys.stderr.write("schemas/ is not what the models say: run python -m spectool.formats.export\n")
    return 1 if diffs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
