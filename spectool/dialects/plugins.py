"""Dialect files from elsewhere: folders the user names, and folders that installed packages point at.

A package points with an entry point of the group `spectool.dialects`, whose value is `package` or `package.folder`. It
is found and never imported: a dialect file is data, and no code comes along with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from spectool.errors import SourceError

VARIABLE = "SPECTOOL_DIALECTS"
GROUP = "spectool.dialects"


def named_folders() -> Iterator[Path]:
    """Yield the folders that the environment names, separated as in PATH.

    Raises:
        SourceError: one does not exist.

    """
    for text in os.environ.get(VARIABLE, "").split(os.pathsep):
        if not text:
            continue
        folder = Path(text)
        if not folder.is_dir():
            raise SourceError(f"{VARIABLE} names {text}, which is no folder")
        yield folder


def packaged_folders() -> Iterator[Path]:
    """Yield the folders that installed packages point at.

    Raises:
        SourceError: a package points at a folder that is not there.

    """
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        package, *below = point.value.split(".")
        spec = PathFinder.find_spec(package)  # of a top-level package: nothing is imported
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        folder = next((found for place in places if (found := Path(place, *below)).is_dir()), None)
        if folder is None:
            raise SourceError(
                f"the entry point {point.name} of {GROUP} names {point.value}, which is no folder of a package",
                hint="Uninstall or repair the package that declares it.",
            )
        yield folder
