"""Run a server in the foreground: start it, watch it, stop it on a signal, and say what was accepted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from spectool.errors import EngineMissingError, UsageError
from spectool.planning import flags
from spectool.serving import metrics
from spectool.serving.address import Address
from spectool.serving.client import Client
from spectool.serving.launch import STOP_GRACE, EngineProcess
from spectool.serving.progress import Progress
from spectool.serving.ready import Start, explain, wait_ready
from spectool.serving.signals import StopSignals

_POLL = 0.2
# Seconds between two looks at the counters, kept for the case that the engine dies: each is a line in its log.
_SNAPSHOT_EVERY = 60.0


def serve(
    argv: Sequence[str],
    address: Address | None,
    progress: Progress,
    *,
    name: str,
    drafting: bool = True,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run the engine until it ends or a signal comes; return its exit code (128 + signal where one killed it).

    One code is corrected: vLLM exits with 0 when its engine died while serving, and a supervisor must see that.

    Args:
        argv: the command of `spectool.planning.command`.
        address: where it will listen; None where it opens no HTTP server.
        progress: talks to the user.
        name: under which the model is served.
        drafting: whether acceptance is worth a word.
        env: the engine's variables; this process's own by default.

    Raises:
        UsageError: something listens on the address already.
        EngineMissingError: the engine could not be started.

    """
    if address is not None and address.taken():
        raise UsageError(f"{address} is in use already", hint="Choose another port: spectool serve ... -- --port N")
    client = Client(address) if address is not None else None
    with StopSignals() as signals:
        with EngineProcess(argv, progress.line, env=env, grace=stop_grace(argv)) as engine:
            signals.on_second = engine.kill
            seen = _Acceptance(client)
            if client is not None and address is not None:
                start = wait_ready(engine, client, progress, interrupted=lambda: signals.received is not None)
                if start is Start.READY:
                    engine.log.forget_errors()
                    seen.started = True
                    progress.line(f"spectool: ready after {engine.elapsed:.0f} s: {name} at {address}")
            while signals.received is None and engine.exit_code() is None:
                seen.look(every=_SNAPSHOT_EVERY)
                time.sleep(_POLL)
            by_itself = signals.received is None
            if not by_itself and signals.received is not None:
                progress.line(f"spectool: {signals.received.name}, stopping the engine (again to kill it)")
                seen.look(every=0.0)
            code = engine.stop()
        if by_itself:
            when = "while serving" if seen.started else "before it was ready"
            progress.error(f"spectool: the engine ended {when}, exit code {code}")
            if code == 0 and engine.log.engine_died:
                progress.error("spectool: it died and vLLM hid that behind exit code 0; spectool exits with 1")
                code = 1
            for line in explain(engine, tail=False):
                progress.error(f"spectool: {line}")
        if drafting and seen.started:
            progress.error(f"spectool: {seen.text(by_itself=by_itself)}")
    return code


def stop_grace(argv: Sequence[str]) -> float:
    """Return how long the engine may take to stop, in seconds: `--shutdown-timeout` lets requests finish first."""
    try:
        own = float(flags.value_of(argv, "--shutdown-timeout") or 0)
    except ValueError:
        own = 0.0
    return STOP_GRACE + max(0.0, own)


class _Acceptance:
    """The counters as they were last seen."""

    def __init__(self, client: Client | None) -> None:
        self._client = client
        self._asked = time.monotonic()
        self._seen: metrics.Snapshot | None = None
        self._answered = False
        self.started = False

    def look(self, every: float) -> None:
        """Ask for the counters if the last time is long enough ago."""
        if self._client is None or not self.started or time.monotonic() - self._asked < every:
            return
        self._asked = time.monotonic()
        try:
            self._seen = metrics.parse(self._client.metrics())
            self._answered = True
        except EngineMissingError:
            return  # it may be on its way out; the last counters stay

    def text(self, *, by_itself: bool) -> str:
        """Return the line for the user."""
        if not self._answered:
            return "acceptance: unknown, the server did not tell"
        text = metrics.describe(self._seen)
        if by_itself:
            text += f" (seen {time.monotonic() - self._asked:.0f} s before the end)"
        return text
