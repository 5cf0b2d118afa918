"""Find the data folders `schemas/` and `converters/` in a wheel, an editable install or a checkout.

In a wheel they lie inside the package (`spectool/_data`); in a checkout beside it. They are never imported as
packages: the package index has unrelated projects of both names, so a neighbour folder counts only under our own
`pyproject.toml`.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from spectool.errors import CannotRunError

Kind = Literal["schemas", "converters"]


def expanded(path: str) -> Path:
    """Return a path with its `~` replaced; it stays where nobody knows that home, as in a container without users."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib's raises RuntimeError there


@cache
def data_folder(kind: Kind) -> Traversable:
    """Return the folder of published schemas or of dialect files.

    Raises:
        CannotRunError: the installation lacks the folder.

    """
    shipped = files("spectool") / "_data" / kind
    if shipped.is_dir():
        return shipped
    root = Path(__file__).resolve().parent.parent
    project = root / "pyproject.toml"
    if project.is_file() and (root / kind).is_dir():
        name = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("name")
        if name == "spectool":
            return root / kind
    raise CannotRunError(f"this installation of spectool has no {kind}/ folder", hint="Install spectool again.")


def package_data(*parts: str) -> Traversable:
    """Return a data file that lives inside the package, under `spectool/data`."""
    return files("spectool").joinpath("data", *parts)
