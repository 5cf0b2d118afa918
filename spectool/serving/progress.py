"""Tell the user what happens while an engine starts: to stderr, live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

# Seconds of silence after which a plain log gets a sign of life.
HEARTBEAT = 15.0
_SHOWN = 100
# What spectool's own questions leave in the engine's log; on a terminal they would scroll everything else away.
_OWN_QUESTION = re.compile(r'INFO:\s+\S+ - "GET /(?:health|metrics) HTTP/1\.1" 200')


class Progress:
    """Prints lines, and between them how long a wait has lasted.

    Args:
        stream: where to; stderr by default.
        quiet: print nothing but errors.

    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._quiet = quiet
        self._lock = threading.Lock()
        self._spoke = time.monotonic()
        self._console: Console | None = None
        self._status: Status | None = None
        if not quiet and self._stream.isatty():
            from rich.console import Console as RichConsole  # noqa: PLC0415 - costs time only on a terminal

            self._console = RichConsole(file=self._stream, highlight=False)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done()

    def line(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            self.error(text)

    @property
    def live(self) -> bool:
        """Whether there is a terminal to show a changing line on."""
        return self._console is not None

    def log(self, text: str) -> None:
        """Print a line of the engine's log."""
        if self._console is None or not _OWN_QUESTION.search(text):
            self.line(text)

    def error(self, text: str) -> None:
        """Print a line, also when quiet."""
        self._spoke = time.monotonic()
        if self._console is not None:
            self._console.print(text, markup=False, soft_wrap=True)
            return
        with self._lock:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def waiting(self, what: str, elapsed: float, last_line: str = "") -> None:
        """Show that something is awaited; cheap enough to call several times a second.

        Args:
            what: such as "starting the engine".
            elapsed: seconds so far.
            last_line: of the engine's log.

        """
        text = f"{what}, {elapsed:.0f} s"
        if last_line:
            text += f": {last_line[:_SHOWN]}"
        if self._console is not None:
            self.status(text)
        elif time.monotonic() - self._spoke > HEARTBEAT:
            self.line(text)

    def status(self, text: str) -> None:
        """Show a line that the next one replaces; on a terminal only."""
        if self._console is None:
            return
        from rich.text import Text  # noqa: PLC0415 - imported where needed: start-up stays quick

        if self._status is None:
            self._status = self._console.status(Text(text))
            self._status.start()
        else:
            self._status.update(Text(text))

    def done(self) -> None:
        """End the live line."""
        if self._status is not None:
            self._status.stop()
            self._status = None
