"""Measure a drafter: run the verifier without and with it, on the same greedy prompts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from spectool.errors import CannotRunError, EngineMissingError, RefusedError
from spectool.serving import metrics
from spectool.serving.address import Address
from spectool.serving.client import Client, Completion, all_ended
from spectool.serving.compare import Difference, differences
from spectool.serving.launch import EngineProcess
from spectool.serving.progress import Progress
from spectool.serving.ready import Start, explain, wait_ready
from spectool.serving.signals import StopSignals

# Requests at a time: enough to fill a batch, few enough that every GPU that fits the verifier serves them at once.
CONCURRENCY = 4
# Seconds. Loading a large verifier from a network file system takes many minutes; vLLM has its own limit.
START_TIMEOUT = 3600.0
COMPLETION_TIMEOUT = 600.0
# Tokens generated before the clock runs: the first request pays for compiled kernels.
_WARM_UP_TOKENS = 8
_POLL = 0.2


@dataclass(frozen=True)
class Pass:
    """What one server did with the prompts.

    Attributes:
        completions: one per prompt.
        seconds: wall time for all of them.
        acceptance: counters of these prompts; None where the server has none.

    """

    completions: tuple[Completion, ...]
    seconds: float
    acceptance: metrics.Snapshot | None

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens of all prompts per second of wall time."""
        return sum(len(completion.tokens) for completion in self.completions) / self.seconds


@dataclass(frozen=True)
class Measured:
    """Both passes and where their outputs part."""

    without: Pass
    with_drafter: Pass
    differences: tuple[Difference, ...]
    token_texts: dict[int, str]


@dataclass(frozen=True)
class Job:
    """What to measure.

    Attributes:
        without: command that serves the verifier alone, on `address`.
        with_drafter: the same command with the drafter.
        address: free, chosen by us.
        model: served name.
        prompts: texts to complete.
        max_tokens: tokens per prompt.
        api_key: that the server will want, or None.

    """

    without: Sequence[str]
    with_drafter: Sequence[str]
    address: Address
    model: str
    prompts: Sequence[str]
    max_tokens: int
    api_key: str | None = None


def measure(job: Job, progress: Progress) -> Measured:
    """Run both passes, one after the other.

    Raises:
        EngineMissingError: the verifier alone does not start, or a server did not answer.
        RefusedError: the verifier starts, but not with the drafter.
        SystemExit: a signal came; the engine was stopped.

    """
    with StopSignals() as signals:
        without, _ = _run_pass(job, job.without, progress, signals)
        with_drafter, texts = _run_pass(job, job.with_drafter, progress, signals, reference=without)
    return Measured(without, with_drafter, differences(without.completions, with_drafter.completions), texts)


def _run_pass(
    job: Job, argv: Sequence[str], progress: Progress, signals: StopSignals, *, reference: Pass | None = None
) -> tuple[Pass, dict[int, str]]:
    label = "without the drafter" if reference is None else "with the drafter"
    client = Client(job.address, job.api_key)
    progress.line(f"spectool: starting the engine {label}")
    with EngineProcess(argv, _drop) as engine:
        signals.on_second = engine.kill
        start = wait_ready(
            engine, client, progress, interrupted=lambda: signals.received is not None, timeout=START_TIMEOUT
        )
        _check_signal(signals)
        if start is not Start.READY:
            raise _not_started(engine, start, label, progress, refused=reference is not None)
        progress.line(f"spectool: ready after {engine.elapsed:.0f} s, sending {len(job.prompts)} prompts")
        engine.log.forget_errors()
        try:
            done = _ask_all(job, client, progress, signals)
            texts = {}
            if reference is not None:
                texts = _texts(job, client, differences(reference.completions, done.completions))
        except CannotRunError:
            if engine.exit_code() is not None:
                for line in explain(engine, tail=True):
                    progress.error(f"spectool: {line}")
            raise
    return done, texts


def _ask_all(job: Job, client: Client, progress: Progress, signals: StopSignals) -> Pass:
    """Send the prompts, a few at a time, between two looks at the counters."""
    pool = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="probe")
    asked: list[Future[Completion]] = []

    def ask(prompts: Sequence[str], max_tokens: int) -> list[Completion]:
        """Ask in threads: the main thread must see signals."""
        started = time.monotonic()
        answers = [
            pool.submit(client.complete, job.model, prompt, max_tokens, COMPLETION_TIMEOUT) for prompt in prompts
        ]
        asked.extend(answers)
        while True:
            finished, pending = wait(answers, timeout=_POLL, return_when=FIRST_EXCEPTION)
            _check_signal(signals)
            for answer in finished:
                answer.result()  # the first failure ends the pass
            if not pending:
                return [answer.result() for answer in answers]
            progress.waiting(f"spectool: {len(finished)} of {len(answers)} prompts", time.monotonic() - started)

    try:
        ask(job.prompts[:1], min(_WARM_UP_TOKENS, job.max_tokens))
        before = metrics.parse(client.metrics())
        started = time.monotonic()
        completions = ask(job.prompts, job.max_tokens)
        seconds = time.monotonic() - started
    finally:
        progress.done()
        pool.shutdown(wait=False, cancel_futures=True)
        client.hang_up(lambda seconds: all_ended(asked, seconds))
    after = metrics.parse(client.metrics())
    seen = after - (before or metrics.Snapshot()) if after is not None else None
    return Pass(tuple(completions), max(seconds, 1e-9), seen)


def _not_started(
    engine: EngineProcess, start: Start, label: str, progress: Progress, *, refused: bool
) -> EngineMissingError | RefusedError:
    """Explain on stderr, and return the error: a refusal of the drafter if the verifier alone did start."""
    if start is Start.LATE:
        return EngineMissingError(f"the engine was not ready {label} after {START_TIMEOUT:.0f} s")
    code = engine.exit_code()
    for line in explain(engine, tail=True):
        progress.error(f"spectool: {line}")
    cause = engine.log.root_cause
    fix = cause.fix if cause is not None else None
    if refused:
        return RefusedError(
            f"the engine starts without the drafter, but not with it (exit code {code})",
            hint=fix or "The last lines of its log are above; spectool serve shows all of it.",
        )
    return EngineMissingError(f"the engine does not start, even {label} (exit code {code})", hint=fix)


def _texts(job: Job, client: Client, parted: Sequence[Difference]) -> dict[int, str]:
    """Return the texts of the tokens that differ, for people."""
    ids = {token for parting in parted for token in (parting.without, parting.with_drafter) if token is not None}
    found = {}
    for token in sorted(ids):
        text = client.text_of(job.model, [token])
        if text is not None:
            found[token] = text
    return found


def _check_signal(signals: StopSignals) -> None:
    if signals.received is not None:
        raise SystemExit(128 + signals.received)


def _drop(line: str) -> None:
    """Keep an engine's output out of a probe's: its end is shown if it fails."""
