"""Run a server in the foreground: start it, check it, watch it, stop it on a signal, and say what was accepted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spectool.errors import UsageError
from spectool.planning import flags
from spectool.report.acceptance import bar_lines
from spectool.serving.acceptance import Check, Expected, Judgement, Verdict
from spectool.serving.address import Address
from spectool.serving.client import Client
from spectool.serving.launch import STOP_GRACE, EngineProcess
from spectool.serving.progress import Progress
from spectool.serving.ready import Start, explain, wait_ready
from spectool.serving.signals import StopSignals
from spectool.serving.watch import Watch

_POLL = 0.2
# Seconds between two looks at the counters: each is a line in the engine's log, which a terminal does not show.
_LOOK_EVERY = 60.0
_LOOK_EVERY_LIVE = 2.0
# The exit code where the check failed and was asked to decide, as for a refused drafter.
CHECK_FAILED = 1


@dataclass(frozen=True)
class Job:
    """What to serve.

    Attributes:
        argv: the command of `spectool.planning.command`.
        address: where it will listen; None where it opens no HTTP server.
        name: under which the model is served.
        plain: the command without the drafter, for when it cannot start with it; None to give up then.
        check: whether to send a few prompts after the start.
        strict: whether a failed check ends the server.
        expected: what the check compares with.
        api_key: that the server wants, or None.
        drafting: whether `argv` has the drafter.
        env: the engine's variables; this process's own by default.

    """

    argv: Sequence[str]
    address: Address | None
    name: str
    plain: Sequence[str] | None = None
    check: bool = True
    strict: bool = False
    expected: Expected | None = None
    api_key: str | None = None
    drafting: bool = True
    env: Mapping[str, str] | None = None


@dataclass(frozen=True)
class _End:
    """How a run ended: its exit code, whether it ever was ready, whether a signal stopped it."""

    code: int
    started: bool
    stopped: bool


def serve(job: Job, progress: Progress) -> int:
    """Run the engine until it ends or a signal comes; return its exit code (128 + signal where one killed it).

    Two codes are ours: vLLM exits with 0 when its engine died while serving, and a supervisor must see that, so it is
    1; and 1 where a strict check failed.

    Args:
        job: what to serve.
        progress: talks to the user.

    Raises:
        UsageError: something listens on the address already.
        EngineMissingError: the engine could not be started.

    """
    if job.address is not None and job.address.taken():
        raise UsageError(f"{job.address} is in use already", hint="Choose another port: spectool serve ... -- --port N")
    with StopSignals() as signals:
        if not job.drafting:
            progress.error("spectool: WITHOUT the drafter, which has errors; --force serves it all the same")
        end = _run(job, job.argv, progress, signals, drafting=job.drafting)
        if job.plain is not None and job.drafting and not end.started and not end.stopped:
            progress.error("spectool: WITHOUT the drafter now: it did not start with it, and --or-plain was given")
            end = _run(job, job.plain, progress, signals, drafting=False)
    return end.code


def _run(job: Job, argv: Sequence[str], progress: Progress, signals: StopSignals, *, drafting: bool) -> _End:
    client = Client(job.address, job.api_key) if job.address is not None else None
    failed = False
    with EngineProcess(argv, progress.log, env=job.env, grace=stop_grace(argv)) as engine:
        signals.on_second = engine.kill

        def over() -> bool:
            return signals.received is not None or engine.exit_code() is not None

        watch = Watch(client)
        if client is not None and _wait(job, engine, client, progress, signals, drafting=drafting):
            watch.started = True
            if drafting and job.check:
                found = _checked(job, client, progress, over)
                watch.begin()  # before a word is said: whoever waits for that may send requests at once
                failed = _told(found, job, progress) and job.strict
        while not over() and not failed:
            _look(watch, progress)
            time.sleep(_POLL)
        progress.done()
        stopped = signals.received is not None
        if failed:
            progress.error("spectool: the check failed and --check strict was given, stopping the engine")
        elif signals.received is not None:
            progress.line(f"spectool: {signals.received.name}, stopping the engine (again to kill it)")
            watch.look(every=0.0)
        code = engine.stop()
    if failed:
        return _End(code or CHECK_FAILED, started=True, stopped=True)
    if not stopped:
        code = _explained(engine, code, progress, started=watch.started)
    if drafting and watch.started:
        progress.error(f"spectool: {watch.text(by_itself=not stopped)}")
    return _End(code, started=watch.started, stopped=stopped)


def _wait(
    job: Job, engine: EngineProcess, client: Client, progress: Progress, signals: StopSignals, *, drafting: bool
) -> bool:
    """Wait until the engine is ready, and say so."""
    start = wait_ready(engine, client, progress, interrupted=lambda: signals.received is not None)
    if start is not Start.READY:
        return False
    engine.log.forget_errors()
    without = "" if drafting else " WITHOUT its drafter"
    progress.line(f"spectool: ready after {engine.elapsed:.0f} s: {job.name} at {job.address}{without}")
    return True


def _checked(job: Job, client: Client, progress: Progress, over: Callable[[], bool]) -> Judgement | None:
    """Send the check's prompts; return what they show, None where the engine ended or a signal came first."""
    check = Check(client, job.name, job.expected)
    began = time.monotonic()
    found = check.run(
        over,
        lambda: progress.waiting("spectool: checking the drafter", time.monotonic() - began),
    )
    progress.done()
    return found


def _told(found: Judgement | None, job: Job, progress: Progress) -> bool:
    """Say what the check found; return whether the drafter does not do what it should."""
    if found is None:
        return False
    progress.error(f"spectool: check: {found.text}")
    if progress.live or found.verdict is not Verdict.GOOD:
        positions = job.expected.positions if job.expected is not None else None
        for line in bar_lines(found.shares, positions):
            progress.line(f"spectool:   {line}")
    return found.fails


def _look(watch: Watch, progress: Progress) -> None:
    line = watch.look(every=_LOOK_EVERY_LIVE if progress.live else _LOOK_EVERY)
    if line is not None and progress.live:
        progress.status(f"spectool: {line}")
    elif line is not None:
        progress.line(f"spectool: {line}")


def _explained(engine: EngineProcess, code: int, progress: Progress, *, started: bool) -> int:
    """Say that and why the engine ended by itself; return the exit code to pass on."""
    progress.error(
        f"spectool: the engine ended {'while serving' if started else 'before it was ready'}, exit code {code}"
    )
    if code == 0 and engine.log.engine_died:
        progress.error("spectool: it died and vLLM hid that behind exit code 0; spectool exits with 1")
        code = 1
    for line in explain(engine, tail=False):
        progress.error(f"spectool: {line}")
    return code


def stop_grace(argv: Sequence[str]) -> float:
    """Return how long the engine may take to stop, in seconds: `--shutdown-timeout` lets requests finish first."""
    try:
        own = float(flags.value_of(argv, "--shutdown-timeout") or 0)
    except ValueError:
        own = 0.0
    return STOP_GRACE + max(0.0, own)
