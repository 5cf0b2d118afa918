"""One large file, fetched range by range into a sparse file; a run that broke off is gone on with."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from spectool.checkpoint.partial import Range, merged, without
from spectool.errors import SourceError
from spectool.hub import cache
from spectool.hub.client import PIECE_BYTES, read_range
from spectool.hub.repository import RemoteFile, Repository
from spectool.hub.talk import Moving

GAP_BYTES = 2**16
"""Ranges so near to each other are fetched as one: a request costs as much as these bytes."""

WHOLE = 0.9
"""From this share on the whole file is fetched: then its digest can be held against the Hub's."""

MIN_WHOLE = 2**20
"""Below, a range stays a range: headers and small tensors of a small file are no reason to fetch its weights."""

COMMIT_BYTES = 2**26
"""After as much, what is there is made durable and recorded."""


class Part:
    """The part of a file that is here."""

    def __init__(self, path: Path, records: Path, repository: Repository, file: RemoteFile) -> None:
        self._path = path
        self._record = records / f"{quote(file.name, safe='')}.json"
        self._repository = repository
        self._file = file
        self._make()

    def fetch(self, ranges: Sequence[Range]) -> int:
        """Bring ranges here, and return how many bytes moved.

        Raises:
            SourceError: they cannot be fetched or kept, or the complete file is not what the Hub lists.

        """
        have, verified = self._read_record()
        if not without(merged(ranges), have) and (verified or have != [(0, self._file.size)]):
            return 0
        with self._locked():
            have, _ = self._read_record()
            missing = without(self._planned(ranges), have)
            if missing and cache.offline():
                raise SourceError(
                    f"{self._repository.repo}: {self._file.name}: bytes are needed that were not fetched before, and "
                    "HF_HUB_OFFLINE forbids the network",
                    hint="Unset HF_HUB_OFFLINE once, or download the repository: hf download " + self._repository.repo,
                )
            total = sum(stop - start for start, stop in missing)
            moving = Moving(f"fetching {self._repository.repo} {self._file.name}", total)
            for start, stop in missing:
                self._fetch(start, stop, have, moving)
            moving.ended()
            if have == [(0, self._file.size)]:
                self._verify()
        return total

    def _planned(self, ranges: Sequence[Range]) -> list[Range]:
        wanted = merged(ranges, GAP_BYTES if len(ranges) > 1 else 0)
        total = sum(stop - start for start, stop in wanted)
        if total >= max(MIN_WHOLE, WHOLE * self._file.size):
            return [(0, self._file.size)]
        return wanted

    def _fetch(self, start: int, stop: int, have: list[Range], moving: Moving) -> None:
        recorded = position = start
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            try:
                for piece in read_range(self._repository, self._file, start, stop):
                    _write_at(fd, piece, position)
                    position += len(piece)
                    moving.moved(len(piece))
                    if position - recorded >= COMMIT_BYTES:
                        self._keep(fd, have, (recorded, position))
                        recorded = position
            finally:
                if position > recorded:
                    self._keep(fd, have, (recorded, position))
        except OSError as error:
            raise cache.unwritable(self._path, error) from error
        finally:
            os.close(fd)

    def _keep(self, fd: int, have: list[Range], new: Range) -> None:
        os.fdatasync(fd)  # the record must not speak of bytes that a power cut takes away
        have[:] = merged([*have, new])
        self._write_record(have)

    def _verify(self) -> None:
        """Hold the complete file against the Hub's digest; only files in large-file storage have one."""
        digest = hashlib.sha256()
        with self._path.open("rb") as stream:
            while piece := stream.read(PIECE_BYTES):
                digest.update(piece)
        if self._file.sha256 in {None, digest.hexdigest()}:
            self._write_record([(0, self._file.size)], verified=True)
            return
        self._write_record([])
        raise SourceError(
            f"{self._repository.repo}: {self._file.name} is not the file that the Hub lists: its SHA-256 differs",
            hint="What was fetched is thrown away. Repeat; if it stays, something on the way changes files.",
        )

    def _make(self) -> None:
        """Make the sparse file, unless it is there."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._record.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_symlink():  # into the Hub's own cache, which has lost it
                self._path.unlink()
            with self._locked():
                if not self._path.is_file() or self._path.stat().st_size != self._file.size:
                    self._write_record([])
                    with self._path.open("wb") as stream:
                        stream.truncate(self._file.size)
        except OSError as error:
            raise cache.unwritable(self._path, error) from error

    def _read_record(self) -> tuple[list[Range], bool]:
        """Return which ranges are here, and whether the complete file was held against its digest."""
        try:
            document = json.loads(self._record.read_bytes())
            have = merged((int(start), int(stop)) for start, stop in document["have"])
            return have, document["verified"] is True
        except (OSError, ValueError, TypeError, KeyError):
            return [], False

    def _write_record(self, have: Sequence[Range], *, verified: bool = False) -> None:
        cache.write(self._record, json.dumps({"have": have, "verified": verified}).encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one run at a time fetch a file; the others then find it."""
        try:
            fd = os.open(self._record.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise cache.unwritable(self._record, error) from error
        try:
            with suppress(OSError):  # a file system without locks: two runs then fetch the same bytes twice
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _write_at(fd: int, data: bytes, position: int) -> None:
    rest = memoryview(data)
    while rest:
        count = os.pwrite(fd, rest, position)
        position += count
        rest = rest[count:]
