"""Prove a folder against its record: every byte of every file, and the record against itself.

Without a signature this shows that folder and record belong together, which damage, a stray upload and careless edits
break. Somebody who edits both and seals the record anew is found by repeating the conversion (`--replay`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spectool import __version__
from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.folder import CONFIG_NAME, INDEX_NAME, read_json
from spectool.checkpoint.header import read_header
from spectool.dialects.catalogue import extended
from spectool.errors import SourceError
from spectool.formats.provenance import FILE, OutputFile, Provenance
from spectool.record.load import read_record
from spectool.record.seal import digest_of, spelled

Kind = Literal["added", "removed", "changed", "contradictory"]
_PIECE = 2**17
# What the Hub's own tools add to every folder they store or download.
_OF_THE_HUB = (".gitattributes", ".cache")
_WEIGHTS = ".safetensors"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one file, tensor or entry of the record."""

    kind: Kind
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What `convert --verify` found. `notes` are no faults; `files` and `nbytes` are what was read and fits."""

    record: Provenance | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    files: int
    nbytes: int


def verify(folder: Path, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Read a folder whole and hold it against its `provenance.json`.

    Args:
        folder: an output of `convert`.
        progress: called with bytes done and bytes in all.

    Raises:
        SourceError: it is no folder, has no record, or a file cannot be read.

    """
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder")
    if not (folder / FILE).is_file():
        raise SourceError(f"{folder}: no {FILE}", hint="Only what `spectool convert` wrote can be verified.")
    try:
        record = read_record(folder)
    except SourceError as error:
        return Verification(None, (Problem("changed", FILE, error.message),), (), 0, 0)
    problems = list(_of_record(record, (folder / FILE).read_bytes()))
    notes = _notes(record)
    recorded = {item.name: item for item in record.files}
    for name in sorted(_entries(folder) - recorded.keys() - {FILE}):
        if name in _OF_THE_HUB:
            notes.append(f"{name} is the Hub's own and was not looked at")
        else:
            problems.append(Problem("added", name, "the record has no such file"))
    total, done, tensors = sum(item.nbytes for item in record.files), 0, dict[str, str]()
    for item in record.files:
        found = _check(folder, item, tensors)
        problems += found
        done += item.nbytes
        if progress is not None:
            progress(done, total)
    problems += _of_tensors(record, tensors, folder)
    wrong = {problem.name for problem in problems}
    good = [item for item in record.files if item.name not in wrong]
    return Verification(record, tuple(problems), tuple(notes), len(good), sum(item.nbytes for item in good))


def _entries(folder: Path) -> set[str]:
    """Return every name in a folder, folders as one entry, links by their own name."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries}
    except OSError as error:
        raise SourceError(f"{folder}: cannot be read: {error.strerror or error}") from error


def _of_record(record: Provenance, raw: bytes) -> Iterator[Problem]:
    if spelled(record) != raw:
        yield Problem("changed", FILE, "it is not spelled as it was written")
    if record.sha256 != digest_of(record):
        yield Problem("changed", FILE, "its digest is not its own: an entry was edited")
    names = [item.name for item in record.files]
    if len(set(names)) < len(names) or any(
        name in {"", ".", "..", FILE} or "/" in name or "\0" in name for name in names
    ):
        yield Problem("contradictory", FILE, "files: a name is doubled or no plain name")
    if CONFIG_NAME not in names:
        yield Problem("contradictory", FILE, f"files: there is no {CONFIG_NAME}")
    tensors = [item.name for item in record.tensors]
    if len(set(tensors)) < len(tensors):
        yield Problem("contradictory", FILE, "tensors: a name is doubled")
    for item in record.tensors:
        if (item.source == "") != (item.origin in {"zeros", "computed"}):
            yield Problem("contradictory", item.name, f"tensors: made of {item.origin}, read from {item.source!r}")
    for name in sorted(record.dropped.keys() & {item.source for item in record.tensors if item.origin == "source"}):
        yield Problem("contradictory", name, "it is dropped and written")


def _notes(record: Provenance) -> list[str]:
    notes = []
    if record.tool.version != __version__:
        notes.append(f"written by spectool {record.tool.version}, verified by {__version__}")
    ours = extended().get(record.dialect.name)
    if ours is None or ours.sha256 != record.dialect.sha256:
        notes.append(f"the dialect file {record.dialect.name} of this spectool is another one than the record's")
    return notes


def _check(folder: Path, item: OutputFile, tensors: dict[str, str]) -> list[Problem]:
    """Read one file; digests of the tensors in it are added to `tensors`."""
    path = folder / item.name
    if "/" in item.name or "\0" in item.name or not path.exists():
        return [Problem("removed", item.name, "it is in the record and not in the folder")]
    try:
        # A link is followed: the Hub's cache stores every file as one. Its bytes are what counts.
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return [Problem("changed", item.name, "it is no regular file")]
        if status.st_size != item.nbytes:
            return [Problem("changed", item.name, f"it has {status.st_size} bytes, recorded are {item.nbytes}")]
        parts = _parts(path)
        found = _digests(path, parts)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    problems = (
        [] if found[""] == item.sha256 else [Problem("changed", item.name, "its bytes are not the recorded ones")]
    )
    for name in parts:
        if name in tensors:
            problems.append(Problem("contradictory", name, "it is in two files"))
        tensors[name] = found[name]
    return problems


def _parts(path: Path) -> dict[str, TensorInfo]:
    if not path.name.endswith(_WEIGHTS):
        return {}
    try:
        return dict(read_header(path).tensors)
    except SourceError:
        return {}  # the file's digest says that it was changed


def _digests(path: Path, parts: Mapping[str, TensorInfo]) -> dict[str, str]:
    """Return the digest of a file under the empty name, and those of its tensors."""
    ends = sorted((item.start, item.start + item.nbytes, name) for name, item in parts.items())
    whole, found = hashlib.sha256(), {name: hashlib.sha256().hexdigest() for start, end, name in ends if start == end}
    waiting = [item for item in ends if item[0] < item[1]][::-1]
    part = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        buffer, position = memoryview(bytearray(_PIECE)), 0
        while True:
            start, end, name = waiting[-1] if waiting else (position + _PIECE, 0, "")
            limit = (start if position < start else end) - position
            count = stream.readinto(buffer[: min(_PIECE, limit)])
            if not count:
                break
            whole.update(buffer[:count])
            position += count
            if waiting and position > start:
                part.update(buffer[:count])
                if position == end:
                    found[name] = part.hexdigest()
                    part = hashlib.sha256()
                    waiting.pop()
    for _, _, name in waiting:
        found[name] = ""  # the file ended before
    return {**found, "": whole.hexdigest()}


def _of_tensors(record: Provenance, found: Mapping[str, str], folder: Path) -> Iterator[Problem]:
    recorded = {item.name: item for item in record.tensors}
    for name in sorted(recorded.keys() - found.keys()):
        yield Problem("removed", name, "the record has this tensor, and no file does")
    for name in sorted(found.keys() - recorded.keys()):
        yield Problem("added", name, "a file has this tensor, and the record does not")
    for name in sorted(found.keys() & recorded.keys()):
        if found[name] != recorded[name].sha256:
            yield Problem("changed", name, "the tensor's bytes are not the recorded ones")
    yield from _of_index(folder, set(recorded))


def _of_index(folder: Path, names: set[str]) -> Iterator[Problem]:
    if not (folder / INDEX_NAME).is_file():
        return
    try:
        document, _ = read_json(folder / INDEX_NAME)
    except SourceError:
        return  # its digest says that it was changed
    mapped = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(mapped, dict) or set(mapped) != names:
        yield Problem("contradictory", INDEX_NAME, "it names other tensors than the record")
