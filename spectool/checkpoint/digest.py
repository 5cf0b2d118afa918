"""SHA-256 of files, and of pieces of them, while they are written: a thread reads back what is in the page cache.

`hashlib` and the kernel copy both release the interpreter's lock, so with cores to spare the digest costs no time.
Nothing is queued in memory but eight small buffers: the thread knows how far each file has grown and reads it once. A
second thread digests the pieces (tensors) from the same buffers, for one processor digests about as fast as a disk
writes, and not twice as fast. The writer waits when the digest is more than `MAX_LAG` bytes behind, before pages that
were not read leave the cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from itertools import accumulate
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Self

MAX_LAG = 2**30
"""In page cache, not in this process. A busy processor slows the digest; the disk should not wait for it at once."""

_BUFFER_BYTES = 2**17
"""Small enough to stay in the processor's cache between read and digest: 1 MiB costs five times the read time."""

_BUFFERS = 8
"""So many are on their way to the second thread: it may fall behind for a moment."""

_STRIDE_BYTES = 2**23
"""Bytes between two looks at how far the file has grown."""


class Followed:
    """One growing file and, later, its digest and those of its pieces: consecutive ranges of `lengths` bytes."""

    def __init__(self, fd: int, lengths: Sequence[int]) -> None:
        self.fd = os.dup(fd)  # the writer closes its own as soon as it has written
        self.pieces = _Pieces(lengths) if lengths else None
        self.written = 0
        self.complete = False
        self.sha256: str | None = None
        self.parts: tuple[str, ...] | None = None if lengths else ()

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class _Pieces:
    """Digests of consecutive pieces, some of them empty."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._ends = tuple(accumulate(lengths))
        self._found: list[str] = []
        self._digest = hashlib.sha256()
        self._done = 0

    def update(self, data: memoryview) -> None:
        while data:
            self._close()
            if len(self._found) == len(self._ends):
                raise OSError(f"the file being written goes on after its pieces, which end at byte {self._done}")
            count = min(len(data), self._ends[len(self._found)] - self._done)
            self._digest.update(data[:count])
            self._done += count
            data = data[count:]

    def finish(self) -> tuple[str, ...]:
        self._close()
        if len(self._found) < len(self._ends):
            raise OSError(f"the file being written ends at byte {self._done}; its pieces end at {self._ends[-1]}")
        return tuple(self._found)

    def _close(self) -> None:
        while len(self._found) < len(self._ends) and self._ends[len(self._found)] == self._done:
            self._found.append(self._digest.hexdigest())
            self._digest = hashlib.sha256()


class Digests:
    """The threads. Use it as a context: leaving it ends them, finished or not."""

    def __init__(self, max_lag: int = MAX_LAG) -> None:
        self._max_lag = max_lag
        self._changed = Condition()
        self._files: list[Followed] = []
        self._lag = 0
        self._stop = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="spectool-digest", daemon=True)
        self._second = Thread(target=self._run_second, name="spectool-digest-pieces", daemon=True)
        # Filled buffers go over with their file, and come back free; no buffer: the file is complete; no file: the end.
        self._filled: SimpleQueue[tuple[Followed | None, memoryview | None, int]] = SimpleQueue()
        self._free: SimpleQueue[memoryview] = SimpleQueue()

    def follow(self, fd: int, lengths: Sequence[int] = ()) -> Followed:
        """Begin with a file that is open for reading and still empty; `lengths` of its pieces add up to its size."""
        file = Followed(fd, lengths)
        with self._changed:
            self._files.append(file)
        return file

    def advanced(self, file: Followed, nbytes: int) -> None:
        """Say that the file has grown; waits while the digest is too far behind.

        Raises:
            OSError: a thread could not read a file back.

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

    def result(self, file: Followed) -> tuple[str, tuple[str, ...]]:
        """Wait for the digest of a completed file and those of its pieces, and return them in hexadecimal.

        Raises:
            OSError: a thread could not read a file back.

        """
        with self._changed:
            self._changed.wait_for(lambda: self._error or (file.sha256 is not None and file.parts is not None))
            if self._error or file.sha256 is None or file.parts is None:
                raise self._error or RuntimeError("the digest thread ended")
            return file.sha256, file.parts

    def __enter__(self) -> Self:
        self._thread.start()
        self._second.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        self._thread.join()
        self._second.join()
        for file in self._files:
            file.close()

    def _run(self) -> None:
        try:
            for _ in range(_BUFFERS):
                self._free.put(memoryview(bytearray(_BUFFER_BYTES)))
            position = 0
            while (file := self._wait_for_file(position)) is not None:
                self._digest(file)
                file.close()
                position += 1
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
            self._failed(error)
        finally:
            self._filled.put((None, None, 0))

    def _run_second(self) -> None:
        """Digest pieces from buffers; after a failure go on handing buffers back, for which the first thread waits."""
        while True:
            file, buffer, count = self._filled.get()
            if file is None or file.pieces is None:
                return
            try:
                if self._error is None and buffer is not None:
                    file.pieces.update(buffer[:count])
                elif self._error is None:
                    with self._changed:
                        file.parts = file.pieces.finish()
                        self._changed.notify_all()
            except BaseException as error:  # noqa: BLE001 - as above
                self._failed(error)
            if buffer is not None:
                self._free.put(buffer)

    def _failed(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _wait_for_file(self, position: int) -> Followed | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stop or len(self._files) > position)
            return None if self._stop else self._files[position]

    def _digest(self, file: Followed) -> None:
        digest = hashlib.sha256()
        done = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop or file.complete or file.written > done)  # noqa: B023 - called before the loop goes on
                if self._stop:
                    return
                if file.written == done:  # and complete
                    file.sha256 = digest.hexdigest()
                    self._filled.put((file, None, 0)) if file.pieces else self._changed.notify_all()
                    return
                end = min(file.written, done + _STRIDE_BYTES)
            begin = done
            while done < end:
                buffer = self._free.get()
                count = os.preadv(file.fd, [buffer[: end - done]], done)
                if count == 0:
                    raise OSError(f"the file being written ends at byte {done}; {end} were written")
                if file.pieces:
                    self._filled.put((file, buffer, count))
                digest.update(buffer[:count])
                if not file.pieces:
                    self._free.put(buffer)
                done += count
            with self._changed:
                self._lag -= done - begin
                self._changed.notify_all()
