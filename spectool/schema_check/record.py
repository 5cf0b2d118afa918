"""What a check says: per file its kind, and findings with line and key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spectool.formats.faults import Path

Kind = Literal["config", "deployment", "dialect", "provenance"]
Status = Literal["clean", "findings", "passed over", "unreadable"]
KINDS: tuple[Kind, ...] = ("config", "deployment", "dialect", "provenance")


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding before its line is known. `path` is the key it is about, present or not."""

    path: Path
    code: str
    severity: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Located:
    """A finding in a file. `line` counts from 1: the key's, or that of the object it is missing from."""

    line: int
    key: str
    code: str
    severity: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file. `why` explains a file that was passed over or could not be read."""

    file: str
    kind: Kind | None
    status: Status
    findings: tuple[Located, ...] = ()
    why: str = ""
    hint: str = ""
