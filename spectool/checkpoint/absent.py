"""What to type next where a file or folder is not there, or holds no model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from spectool.errors import SourceError

CONFIG_NAME = "config.json"
_WANTED = "Name a folder with config.json and weights, or a repository of the Hub as org/name."
_ADDRESS = re.compile(r"https?:/{1,2}[^/]+/(.+)")
_MOST = 1000
"""Names looked at; who has more of them in one place needs another tool than a hint."""


def no_folder(root: Path) -> SourceError:
    """Return the error for a folder that does not exist."""
    return SourceError(f"{root}: no such folder", hint=_meant(root))


def _meant(root: Path) -> str:
    if match := _ADDRESS.match(str(root)):
        parts = [part for part in urlsplit(match[1]).path.split("/") if part]
        revision = f"@{parts[3]}" if len(parts) > 3 and parts[2] in ("tree", "blob") else ""
        if len(parts) >= 2:
            return f"Name a repository of the Hub without its address: {parts[0]}/{parts[1]}{revision}"
    return _near(root, _folders(root.parent)) or _WANTED


def no_file(path: Path) -> SourceError:
    """Return the error for a file that does not exist."""
    try:
        beside = sorted(item.name for item in islice(path.parent.iterdir(), _MOST))
    except OSError:
        beside = []
    return SourceError(f"{path}: no such file", hint=_near(path, beside))


def _near(path: Path, names: Sequence[str]) -> str | None:
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.7)
    return f"Near: {', '.join(str(path.parent / name) for name in near)}." if near else None


def no_config(root: Path) -> SourceError:
    """Return the error for a folder without config.json: what lies one or two folders below is named."""
    below = _folders(root)
    inside = [name for name in below if _has_config(root / name)] or [
        f"{name}/{other}" for name in below for other in _folders(root / name) if _has_config(root / name / other)
    ]
    named = ", ".join(str(root / name) for name in inside[:3])
    more = ", ..." if len(inside) > 3 else ""
    hint = f"A folder within has one: {named}{more}" if inside else _WANTED
    return SourceError(f"{root / CONFIG_NAME}: no such file", hint=hint)


def no_weights(root: Path, looked_for: Sequence[str]) -> SourceError:
    """Return the error for a folder with a config alone."""
    return SourceError(
        f"{root}: no weights: neither {' nor '.join(looked_for)}",
        hint="The download is incomplete: download it again. A config alone is checked by: "
        f"spectool schema check {root / CONFIG_NAME}",
    )


def _folders(root: Path) -> list[str]:
    try:
        return sorted(item.name for item in islice(root.iterdir(), _MOST) if item.is_dir() and item.name[0] != ".")
    except OSError:
        return []


def _has_config(folder: Path) -> bool:
    try:
        return (folder / CONFIG_NAME).is_file()
    except OSError:
        return False
