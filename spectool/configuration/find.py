"""Find and read the configuration: from the current directory upward, not beyond a repository's root.

Not from the drafter's folder upward: a published drafter must not bring along what silences its own findings.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectool.checkpoint.small_file import read_small_text
from spectool.errors import SourceError, UsageError

if TYPE_CHECKING:  # pydantic models are built only where there is a file
    from spectool.formats.configuration import Configuration

OWN = "spectool.toml"
PROJECT = "pyproject.toml"
MAX_BYTES = 4 * 2**20


def find_configuration(start: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the nearest `spectool.toml`, or `pyproject.toml` with a table `[tool.spectool]`, and what it says.

    Folders are searched from `start` upward; one that holds `.git` is the last. In one folder `spectool.toml` wins.

    Raises:
        SourceError: a file on the way cannot be read.

    """
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / OWN).is_file():
            return folder / OWN, _read(folder / OWN)
        if (folder / PROJECT).is_file():
            document = _read(folder / PROJECT)
            table = document.get("tool", {}).get("spectool") if isinstance(document.get("tool"), dict) else None
            if table is not None:
                return folder / PROJECT, table
        if (folder / ".git").exists():
            return None
    return None


def load_configuration(path: Path | None, start: Path) -> tuple[Path, Configuration] | None:
    """Return the configuration and its file; None where there is none.

    Args:
        path: the file the user named, which is taken whole unless it is a `pyproject.toml`.
        start: where the search begins when none was named.

    Raises:
        SourceError: the file cannot be read.
        UsageError: it says something spectool does not understand.

    """
    if path is None:
        found = find_configuration(start)
    else:
        document = _read(path)
        tool = document.get("tool")
        found = path, (tool.get("spectool", {}) if isinstance(tool, dict) else {}) if path.name == PROJECT else document
    if found is None:
        return None
    return found[0], _checked(*found)


def _read(path: Path) -> dict[str, Any]:
    text = read_small_text(path, MAX_BYTES, what="no configuration is")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SourceError(f"{path}: not TOML: {error}") from None


def _checked(path: Path, table: object) -> Configuration:
    from pydantic import ValidationError  # noqa: PLC0415 - imported where needed: start-up stays quick

    from spectool.formats.configuration import Configuration  # noqa: PLC0415 - imported where needed: start-up stays quick

    where = f"{path}: [tool.spectool]" if path.name == PROJECT else str(path)
    if not isinstance(table, dict):
        raise UsageError(f"{where} is no table")
    known = [field.alias or name for name, field in Configuration.model_fields.items()]
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key.lower().replace("_", "-"), known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(known)}."
            raise UsageError(f"{where}: unknown key {key!r}", hint=hint)
    try:
        return Configuration.model_validate(table)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in fault["loc"] if part != "[key]")
        message = f"{where}: {key}: {fault['msg'][:1].lower()}{fault['msg'][1:]}"
        raise UsageError(message, hint="`spectool schema show configuration` says what is allowed.") from None
