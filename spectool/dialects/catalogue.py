"""Load the dialect files that ship with spectool."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache

from pydantic import ValidationError

from spectool.errors import SourceError, UsageError
from spectool.formats.dialect import DialectFile
from spectool.resources import data_folder


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect file and the digest under which a record names it."""

    file: DialectFile
    name: str
    sha256: str


@cache
def catalogue() -> dict[str, Dialect]:
    """Return all dialects by name, in alphabetical order.

    Raises:
        SourceError: a dialect file is broken; the message names it and every fault.

    """
    entries = [entry for entry in data_folder("converters").iterdir() if entry.name.endswith(".toml")]
    dialects = {}
    for entry in sorted(entries, key=lambda entry: entry.name):
        dialect = parse_dialect(entry.name, entry.read_bytes())
        dialects[dialect.file.dialect] = dialect
    return dialects


def parse_dialect(name: str, content: bytes) -> Dialect:
    """Parse one dialect file.

    Raises:
        SourceError: it is no TOML, or does not fit the format.

    """
    try:
        file = DialectFile.model_validate(tomllib.loads(content.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
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
        raise UsageError(f"no dialect named {name!r}", hint=f"Known dialects: {', '.join(known)}.")
    return known[name]
