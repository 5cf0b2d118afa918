"""Read an engine's output: forward it line by line, remember its end and the root cause of a failure."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable

from spectool.planning.redact import hide
from spectool.serving.rootcause import RootCause, RootCauseFinder

TAIL_LINES = 60
_CHUNK = 1 << 16
# A line is cut here: an engine that never ends a line must not fill the memory.
_MAX_LINE = 1 << 14
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")


class EngineLog:
    """The output of one engine.

    Args:
        on_line: called for every line, from the reading thread; what it raises is ignored.
        secrets: replaced wherever they occur, before anything else sees the line.

    """

    def __init__(self, on_line: Callable[[str], None], secrets: frozenset[str] = frozenset()) -> None:
        self._on_line = on_line
        self._secrets = secrets
        self._finder = RootCauseFinder()
        self._thread: threading.Thread | None = None
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        return next((line for line in reversed(list(self.tail)) if line.strip()), "")

    @property
    def root_cause(self) -> RootCause | None:
        """Why it fails, as far as the log tells."""
        return self._finder.found

    @property
    def engine_died(self) -> bool:
        """Whether the server said that its engine died under it."""
        return self._finder.engine_died

    def forget_errors(self) -> None:
        """Start over with the root cause: errors from before the engine was ready did not kill it."""
        self._finder = RootCauseFinder()

    def follow(self, descriptor: int) -> None:
        """Read a pipe to its end in a thread, and close it."""
        self._thread = threading.Thread(target=self._read, args=(descriptor,), name="engine-log", daemon=True)
        self._thread.start()

    def finish(self, timeout: float) -> None:
        """Wait until the pipe was read to its end, at most timeout seconds: a stray child may hold it open."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _read(self, descriptor: int) -> None:
        rest = b""
        try:
            while chunk := os.read(descriptor, _CHUNK):
                # Progress bars of the loader rewrite their line: every state counts as a line.
                *lines, rest = re.split(rb"\r\n|\n|\r", rest + chunk)
                for line in lines:
                    self._take(line)
                if len(rest) > _MAX_LINE:
                    self._take(rest)
                    rest = b""
        except OSError:
            pass
        finally:
            os.close(descriptor)
        if rest:
            self._take(rest)

    def _take(self, raw: bytes) -> None:
        text = clean(raw[:_MAX_LINE].decode("utf-8", "replace"))
        line = hide(text, self._secrets)
        self.tail.append(line)
        self._finder.feed(line)
        try:
            self._on_line(line)
        except (OSError, ValueError):  # our own output was closed; the engine must not block on a full pipe
            self._on_line = _ignore


def clean(line: str) -> str:
    """Return a line without what would steer a terminal."""
    line = _ANSI.sub("", line)
    return "".join(char if char == "\t" or char.isprintable() else " " for char in line).rstrip()


def _ignore(line: str) -> None:
    """Drop a line."""
