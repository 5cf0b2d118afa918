"""SHA-256 of files while they are written: a thread reads back what is there, from the page cache.

`hashlib` and the kernel copy both release the interpreter's lock, so on two cores the digest costs no time. Nothing is
queued in memory: the thread knows how far each file has grown and reads it through one buffer. The writer waits when
the digest is more than `MAX_LAG` bytes behind, before pages not yet read leave the cache.
"""

from __future__ import annotations

import hashlib
import os
from threading import Condition, Thread
from typing import Self

MAX_LAG = 2**30
"""In page cache, not in this process. A busy processor slows the digest; the disk should not wait for it at once."""

_BUFFER_BYTES = 2**17
"""Small enough to stay in the processor's cache between read and digest: 1 MiB costs five times the read time."""

_STRIDE_BYTES = 2**23
"""Bytes between two looks at how far the file has grown."""


class Followed:
    """One growing file and, later, its digest."""

    def __init__(self, fd: int) -> None:
        self.fd = os.dup(fd)  # the writer closes its own as soon as it has written
        self.written = 0
        self.complete = False
        self.sha256: str | None = None

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

    def follow(self, fd: int) -> Followed:
        """Begin with a file that is open for reading and still empty."""
        file = Followed(fd)
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

    def result(self, file: Followed) -> str:
        """Wait for the digest of a completed file, and return it in hexadecimal.

        Raises:
            OSError: the thread could not read a file back.

        """
        with self._changed:
            self._changed.wait_for(lambda: self._error or file.sha256 is not None)
            if self._error or file.sha256 is None:
                raise self._error or RuntimeError("the digest thread ended")
            return file.sha256

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
        digest = hashlib.sha256()
        done = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop or file.complete or file.written > done)  # noqa: B023 - called before the loop goes on
                if self._stop:
                    return
                if file.written == done:  # and complete
                    file.sha256 = digest.hexdigest()
                    self._changed.notify_all()
                    return
                end = min(file.written, done + _STRIDE_BYTES)
            begin = done
            while done < end:
                count = os.preadv(file.fd, [buffer[: end - done]], done)
                if count == 0:
                    raise OSError(f"the file being written ends at byte {done}; {end} were written")
                digest.update(buffer[:count])
                done += count
            with self._changed:
                self._lag -= done - begin
                self._changed.notify_all()
