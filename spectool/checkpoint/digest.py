"""SHA-256 of files, or of pieces of them, while they are written: a thread reads back what is in the page cache.

`hashlib` and the kernel copy both release the interpreter's lock, so on two cores the digest costs no time. Nothing is
queued in memory: the thread knows how far each file has grown and reads it through one buffer. The writer waits when
the digest is more than `MAX_LAG` bytes behind, before pages not yet read leave the cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from itertools import accumulate
from threading import Condition, Thread
from typing import Self

MAX_LAG = 2**30
"""In page cache, not in this process. A busy processor slows the digest; the disk should not wait for it at once."""

_BUFFER_BYTES = 2**17
"""Small enough to stay in the processor's cache between read and digest: 1 MiB costs five times the read time."""

_STRIDE_BYTES = 2**23
"""Bytes between two looks at how far the file has grown."""


class Followed:
    """One growing file and, later, the digests of its pieces: consecutive ranges of `lengths` bytes, or all of it."""

    def __init__(self, fd: int, lengths: Sequence[int] | None = None) -> None:
        self.fd = os.dup(fd)  # the writer closes its own as soon as it has written
        self.ends = None if lengths is None else tuple(accumulate(lengths))
        self.written = 0
        self.complete = False
        self.digests: tuple[str, ...] | None = None

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class Digests:
    """The thread. Use it as a context: leaving it ends the thread, finished or not."""

    def __init__(self, max_lag: int = MAX_LAG) -> None:
        self._max_lag = max_lag
        self._changed = Condition()
        self._files: list[Followed] = []
        self._lag = 0
        self._stop = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="spectool-digest", daemon=True)

    def follow(self, fd: int, lengths: Sequence[int] | None = None) -> Followed:
        """Begin with a file that is open for reading and still empty; `lengths` of pieces add up to its size."""
        file = Followed(fd, lengths)
        with self._changed:
            self._files.append(file)
        return file

    def advanced(self, file: Followed, nbytes: int) -> None:
        """Say that the file has grown; waits while the digest is too far behind.

        Raises:
            OSError: the thread could not read a file back.

        """
        with self._changed:
            file.written += nbytes
            self._lag += nbytes
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error or self._lag <= self._max_lag)
            if self._error:
                raise self._error

    def completed(self, file: Followed) -> None:
        """Say that the file grows no more."""
        with self._changed:
            file.complete = True
            self._changed.notify_all()

    def result(self, file: Followed) -> tuple[str, ...]:
        """Wait for the digests of a completed file, and return them in hexadecimal.

        Raises:
            OSError: the thread could not read a file back.

        """
        with self._changed:
            self._changed.wait_for(lambda: self._error or file.digests is not None)
            if self._error or file.digests is None:
                raise self._error or RuntimeError("the digest thread ended")
            return file.digests

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        self._thread.join()
        for file in self._files:
            file.close()

    def _run(self) -> None:
        try:
            buffer = memoryview(bytearray(_BUFFER_BYTES))
            position = 0
            while (file := self._wait_for_file(position)) is not None:
                self._digest(file, buffer)
                file.close()
                position += 1
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _wait_for_file(self, position: int) -> Followed | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stop or len(self._files) > position)
            return None if self._stop else self._files[position]

    def _digest(self, file: Followed, buffer: memoryview) -> None:
        pieces = _Pieces(file.ends)
        done = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop or file.complete or file.written > done)  # noqa: B023 - called before the loop goes on
                if self._stop:
                    return
                if file.written == done:  # and complete
                    file.digests = pieces.finish(done)
                    self._changed.notify_all()
                    return
                end = min(file.written, done + _STRIDE_BYTES)
            begin = done
            while done < end:
                count = os.preadv(file.fd, [buffer[: min(end, pieces.end(end)) - done]], done)
                if count == 0:
                    raise OSError(f"the file being written ends at byte {done}; {end} were written")
                pieces.update(buffer[:count])
                done += count
            with self._changed:
                self._lag -= done - begin
                self._changed.notify_all()


class _Pieces:
    """Digests of consecutive pieces; the last one is open-ended without `ends`."""

    def __init__(self, ends: tuple[int, ...] | None) -> None:
        self._ends = ends
        self._found: list[str] = []
        self._digest = hashlib.sha256()
        self._done = 0

    def end(self, position: int) -> int:
        """Return where the piece ends that comes next; `position` when it has no end."""
        if self._ends is None:
            return position
        self._close()
        return self._ends[len(self._found)] if len(self._found) < len(self._ends) else position

    def update(self, data: memoryview) -> None:
        self._digest.update(data)
        self._done += len(data)

    def finish(self, size: int) -> tuple[str, ...]:
        """Return all digests of a file of `size` bytes."""
        if self._ends is None:
            return (self._digest.hexdigest(),)
        self._close()
        if len(self._found) < len(self._ends) or (self._ends[-1] if self._ends else 0) != size:
            raise OSError(f"the file has {size} bytes; its pieces end at {self._ends[-1] if self._ends else 0}")
        return tuple(self._found)

    def _close(self) -> None:
        """Close every piece that ends here; empty ones follow at once."""
        ends = self._ends or ()
        while len(self._found) < len(ends) and ends[len(self._found)] == self._done:
            self._found.append(self._digest.hexdigest())
            self._digest = hashlib.sha256()
