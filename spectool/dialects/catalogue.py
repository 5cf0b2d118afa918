"""Load the dialect files that ship with spectool, and those from elsewhere (`spectool.dialects.plugins`)."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from spectool.checkpoint.small_file import read_small
from spectool.dialects.plugins import named_folders, packaged_folders
from spectool.errors import SourceError, UsageError
from spectool.formats.dialect import DialectFile, Match
from spectool.resources import data_folder

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect file and the digest under which a record names it."""

    file: DialectFile
    name: str
    sha256: str


@cache
def catalogue() -> dict[str, Dialect]:
    """Return the dialects that ship, and those of folders the user names, by name.

    Raises:
        SourceError: a dialect file is broken; the message names it and every fault.

    """
    return _with(_with({}, data_folder("converters")), *named_folders())


@cache
def extended() -> dict[str, Dialect]:
    """Return those of installed packages as well. It takes a look at every package: where the others do not do.

    Raises:
        SourceError: as above.

    """
    return _with(catalogue(), *packaged_folders())


def fitting(fits: Callable[[Match], bool]) -> list[Dialect]:
    """Return those of `catalogue` whose table [match] fits.

    Of a file that ships, the rest is parsed where that table fits: parsing all of them takes longer than anything else
    of a check.

    Raises:
        SourceError: as `catalogue`.

    """
    if any(named_folders()):
        return [dialect for dialect in catalogue().values() if fits(dialect.file.match)]
    return [_shipped(name) for name, match in _shipped_matches().items() if fits(match)]


@cache
def _shipped(name: str) -> Dialect:
    return parse_dialect(name, (data_folder("converters") / name).read_bytes())


@cache
def _shipped_matches() -> dict[str, Match]:
    files = sorted(entry.name for entry in data_folder("converters").iterdir() if entry.name.endswith(".toml"))
    return {name: match_of((data_folder("converters") / name).read_text(encoding="utf-8")) for name in files}


def match_of(text: str) -> Match:
    """Return the table [match] of a dialect file that ships, unchecked: a test holds it against the whole file."""
    table = tomllib.loads(text.partition("\n[match]\n")[2].partition("\n[")[0])
    predicates: dict[str, Any] = {key: tuple(texts) for key, texts in table.items()}
    return Match.model_construct(**predicates)


def _with(known: dict[str, Dialect], *folders: Traversable) -> dict[str, Dialect]:
    found = dict(known)
    for folder in folders:
        entries = [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]
        for entry in sorted(entries, key=lambda entry: entry.name):
            dialect = parse_dialect(entry.name, _content(entry))
            if dialect.file.dialect in found:
                raise SourceError(
                    f"{folder}: the dialect {dialect.file.dialect} exists already",
                    hint="Give it a name of its own: METHOD-PRODUCER.toml.",
                )
            found[dialect.file.dialect] = dialect
    return found


def _content(entry: Traversable) -> bytes:
    """Return a file's bytes; of a folder on disk, which anybody may have filled, with care."""
    return read_small(entry, _MOST_BYTES, what="no dialect file is") if isinstance(entry, Path) else entry.read_bytes()


def parse_dialect(name: str, content: bytes) -> Dialect:
    """Parse one dialect file.

    Raises:
        SourceError: it is no TOML, or does not fit the format.

    """
    try:
        file = DialectFile.model_validate(tomllib.loads(content.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise SourceError(f"dialect file {name}: {error}") from None
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise SourceError(f"dialect file {name}: {faults}") from None
    if name != f"{file.dialect}.toml":
        raise SourceError(f"dialect file {name} names itself {file.dialect!r}")
    return Dialect(file, name, hashlib.sha256(content).hexdigest())


def dialect_named(name: str) -> Dialect:
    """Return the dialect a user named with `--from`.

    Raises:
        UsageError: there is none of that name.

    """
    known = catalogue()
    if name not in known:
        known = extended()
    if name not in known:
        raise UsageError(f"no dialect named {name!r}", hint=f"Known dialects: {', '.join(known)}.")
    return known[name]
