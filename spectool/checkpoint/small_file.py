"""Read a small file that somebody else may have made: nothing that never ends, and nothing that is waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from spectool.checkpoint.absent import no_file
from spectool.errors import SourceError


def read_small(path: Path, limit: int, *, pipes: bool = False, what: str = "") -> bytes:
    """Return a file's bytes.

    Args:
        path: the file; links are followed.
        limit: the most bytes it may have.
        pipes: take a pipe as well, and wait for it: for files that a user names, as `<(...)` in a shell.
        what: what is read, for the message about a file too large ("no profile is").

    Raises:
        SourceError: it is not there, cannot be read, is larger, or is no regular file.

    """
    # A pipe that nobody writes to would be waited for at its opening: it is opened without, looked at and refused.
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if pipes else os.O_NONBLOCK)
    try:
        fd = os.open(path, flags)
        try:
            mode = os.fstat(fd).st_mode
            if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
                raise SourceError(f"{path}: not a regular file{' but a folder' if stat.S_ISDIR(mode) else ''}")
            raw = _read(fd, limit + 1)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise no_file(path) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise SourceError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > limit:
        raise SourceError(f"{path}: larger than {limit} bytes{what and f'; {what}'}")
    return raw


def _read(fd: int, most: int) -> bytes:
    raw = bytearray()
    while len(raw) < most and (part := os.read(fd, min(most - len(raw), 1 << 20))):
        raw += part
    return bytes(raw)


def read_small_text(path: Path, limit: int, *, pipes: bool = False, what: str = "") -> str:
    """Return a file's text.

    Raises:
        SourceError: as `read_small`, or it is not UTF-8.

    """
    raw = read_small(path, limit, pipes=pipes, what=what)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8 at byte {error.start}") from None
