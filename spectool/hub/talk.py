"""Say on standard error what moves, when it takes more than a second. The library is silent until somebody listens."""

from __future__ import annotations

import time
from collections.abc import Callable

AFTER_SECONDS = 1.0
EVERY_SECONDS = 5.0

Listener = Callable[[str], None]
_listeners: list[Listener] = []


def listen(listener: Listener | None) -> None:
    """Send messages to `listener`, or to nobody."""
    _listeners[:] = [] if listener is None else [listener]


def say(message: str) -> None:
    """Send a message to whoever listens."""
    for listener in _listeners:
        listener(message)


class Moving:
    """Bytes on their way: the first message comes after a second, the next ones every five.

    Args:
        what: what is fetched or sent, as the message names it.
        total: bytes in all.

    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._next = time.monotonic() + AFTER_SECONDS
        self._said = False

    def moved(self, count: int) -> None:
        """Count bytes, and say so when it is time."""
        self._done += count
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY_SECONDS
            self._said = True
            say(f"{self._what}: {_size(self._done)} of {_size(self._total)}")

    def ended(self) -> None:
        """Say the end of what was begun to be said."""
        if self._said:
            say(f"{self._what}: {_size(self._done)}, done")


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
