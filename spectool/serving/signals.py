"""Turn the signals that end a program into something a loop can look at."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """While active, the first SIGINT, SIGTERM or SIGHUP is only noted; every further one calls `on_second`.

    A signal that was ignored when spectool started (nohup, a background job of a shell) stays ignored.

    Attributes:
        received: the first signal, or None.
        on_second: what to do when the user does not want to wait.

    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.on_second: Callable[[], None] | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopSignals:
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            # None stands for a handler that was not installed from Python; it cannot be put back.
            signal.signal(number, before if callable(before) else signal.SIG_DFL)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # No lock and no event: this runs between any two steps of the main thread.
        if self.received is None:
            self.received = signal.Signals(number)
        elif self.on_second is not None:
            self.on_second()
