"""Wait until an engine is ready, and explain why it is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import Enum

from spectool.serving.client import Client
from spectool.serving.launch import EngineProcess
from spectool.serving.progress import Progress

_POLL = 0.2
# Seconds between two questions: every one is a line in the engine's log once it listens.
_ASK_EVERY = 1.0
_TAIL = 15


class Start(Enum):
    """How waiting for an engine ended."""

    READY = "ready"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    LATE = "late"


def wait_ready(
    engine: EngineProcess,
    client: Client,
    progress: Progress,
    *,
    interrupted: Callable[[], bool] = lambda: False,
    timeout: float | None = None,
) -> Start:
    """Wait until `/health` answers, the engine ends, or the user has had enough.

    Args:
        engine: the started engine.
        client: asks it.
        progress: shows the time and the last line of the log.
        interrupted: whether to stop waiting.
        timeout: seconds; None waits as long as the engine lives: vLLM has its own limit.

    """
    asked = 0.0
    try:
        while True:
            if engine.exit_code() is not None:
                return Start.ENDED
            if interrupted():
                return Start.INTERRUPTED
            if timeout is not None and engine.elapsed > timeout:
                return Start.LATE
            if time.monotonic() - asked >= _ASK_EVERY:
                asked = time.monotonic()
                # The engine must still live: another program may have taken its port.
                if client.healthy() and engine.exit_code() is None:
                    return Start.READY
            progress.waiting("spectool: starting the engine", engine.elapsed, engine.log.last_line)
            time.sleep(_POLL)
    finally:
        progress.done()


def explain(engine: EngineProcess, *, tail: bool) -> Iterator[str]:
    """Yield lines that say why an engine ended.

    Args:
        engine: that ended.
        tail: whether to show the end of its log, for logs that were not forwarded.

    """
    engine.log.finish(2.0)
    cause = engine.log.root_cause
    if cause is not None:
        yield f"root cause: {cause.line[:500]}"
        if cause.cause:
            yield f"  meaning: {cause.cause}"
        if cause.fix:
            yield f"  fix: {cause.fix}"
        if cause.rule:
            yield f"  before a start: spectool rule {cause.rule}"
    if tail and (cause is None or cause.cause is None):
        yield "last lines of the engine's log:"
        yield from (f"  {line[:300]}" for line in list(engine.log.tail)[-_TAIL:])
