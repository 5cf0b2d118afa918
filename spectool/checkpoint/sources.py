"""Source files while they are copied: opened once, watched for change, every failure a `SourceError`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from spectool.checkpoint import partial
from spectool.errors import SourceError


class Source:
    """One open source file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reading(path):
            # O_NONBLOCK: opening a FIFO must not wait for a writer. It changes nothing for regular files.
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._stamp = self._stat()

    @property
    def size(self) -> int:
        """Bytes in the file when it was opened."""
        return self._stamp[0]

    def _stat(self) -> tuple[int, int]:
        with _reading(self.path):
            status = os.fstat(self.fd)
        # An incomplete file is completed meanwhile, maybe by another run; what was fetched never changes.
        return status.st_size, 0 if partial.incomplete(self.path) else status.st_mtime_ns

    def check_range(self, start: int, nbytes: int) -> None:
        """Raise `SourceError` when the file has no such range; of an incomplete file it is fetched first."""
        if start + nbytes > self.size:
            raise SourceError(f"{self.path}: bytes {start} to {start + nbytes} are wanted; the file has {self.size}")
        partial.ensure(self.path, start, nbytes)

    def check_unchanged(self) -> None:
        """Raise `SourceError` when the file was written to since it was opened."""
        size, _ = now = self._stat()
        if now != self._stamp:
            what = f"changed its size from {self.size} to {size} bytes" if size != self.size else "was written to"
            raise SourceError(f"{self.path}: {what} while it was copied", hint="Repeat when nothing writes to it.")

    def read_into(self, buffer: memoryview, start: int) -> None:
        """Fill the whole buffer with the file's bytes from `start` on.

        Raises:
            SourceError: the file cannot be read, or ends before.

        """
        filled = 0
        while filled < len(buffer):
            with _reading(self.path):
                count = os.preadv(self.fd, [buffer[filled:]], start + filled)
            if count == 0:
                self.check_unchanged()
                raise SourceError(f"{self.path}: ends at byte {start + filled}; {start + len(buffer)} are wanted")
            filled += count


class Sources:
    """All source files of one output. Use it as a context: leaving it closes them."""

    def __init__(self) -> None:
        self._open: dict[Path, Source] = {}

    def get(self, path: Path) -> Source:
        """Return the open file, opening it on first use."""
        if path not in self._open:
            self._open[path] = Source(path)
        return self._open[path]

    def check_unchanged(self) -> None:
        """Raise `SourceError` when a file was written to since it was opened."""
        for source in self._open.values():
            source.check_unchanged()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._open.values():
            os.close(source.fd)
        self._open.clear()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
