"""Measure the acceptance of a server that runs already, somewhere: its answers are not trusted, its load is bounded."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from spectool.errors import EngineMissingError, UsageError
from spectool.serving import metrics
from spectool.serving.address import Address
from spectool.serving.client import Client, all_ended
from spectool.serving.log import clean
from spectool.serving.progress import Progress
from spectool.serving.signals import StopSignals
from spectool.serving.watch import Load, load_of

# Somebody else's server: a handful of requests at a time, and an end to them.
CONCURRENCY = 2
MAX_PROMPTS = 64
MAX_TOKENS = 512
TOTAL_SECONDS = 600.0
_REQUEST_SECONDS = 120.0
_POLL = 0.2
# A draft is short; a longer histogram is no histogram.
_LONGEST = 256
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,256}")


@dataclass(frozen=True)
class Remote:
    """What a running server did with our prompts.

    Attributes:
        model: that was asked.
        version: that the server names; None where it does not.
        requests: prompts sent.
        tokens: generated for us.
        seconds: wall time of all of them.
        per_request: our requests' own figures; None where the server does not send them.
        counters: what its counters did meanwhile; None where it has none that can be read.
        others: tokens it generated meanwhile for others; None where it does not say.

    """

    model: str
    version: str | None
    requests: int
    tokens: int
    seconds: float
    per_request: metrics.Snapshot | None
    counters: metrics.Snapshot | None
    others: int | None

    @property
    def acceptance(self) -> metrics.Snapshot | None:
        """The best figures there are: of our own requests, else the server's."""
        return self.per_request if self.per_request is not None else self.counters

    @property
    def mixed(self) -> bool:
        """Whether requests of others may be in the figures."""
        return self.per_request is None and self.counters is not None and self.others != 0


def server_of(url: str, api_key: str | None) -> Client:
    """Return a client of the server at a URL.

    Raises:
        UsageError: it is no http URL, or holds a login.

    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise UsageError(f"--url: {error}") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise UsageError("--url: write http://HOST:PORT or https://HOST", hint="Without a query or a fragment.")
    if parts.username or parts.password:
        raise UsageError(
            "--url holds a login, and whoever lists processes could read it",
            hint="--api-key-env NAME names the variable that holds the key.",
        )
    tls = parts.scheme == "https"
    address = Address(host=host, port=port or (443 if tls else 8000 if "://" not in url else 80), tls=tls)
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    return Client(address, api_key, prefix=prefix, public=True)


def measure_remote(
    client: Client, prompts: Sequence[str], max_tokens: int, progress: Progress, model: str | None = None
) -> Remote:
    """Send the prompts, a few at a time.

    Args:
        client: of the server.
        prompts: to complete greedily; at most MAX_PROMPTS.
        max_tokens: for each; at most MAX_TOKENS.
        progress: talks to the user.
        model: the served name; the server's only one where none is given.

    Raises:
        EngineMissingError: no usable answer.
        UsageError: too much was asked for, or the server serves several models.
        SystemExit: a signal came.

    """
    if len(prompts) > MAX_PROMPTS or max_tokens > MAX_TOKENS:
        raise UsageError(
            f"{len(prompts)} prompts of {max_tokens} tokens are too much for a server that others use",
            hint=f"At most {MAX_PROMPTS} prompts and --max-tokens {MAX_TOKENS}.",
        )
    name = model or _only_model(client)
    version = _version(client)
    before, load = _counters(client)
    started = time.monotonic()
    with StopSignals() as signals:
        answers = _ask_all(client, name, prompts, max_tokens, progress, signals)
    seconds = max(time.monotonic() - started, 1e-9)
    after, then = _counters(client)
    tokens = sum(_tokens(answer) for answer in answers)
    seen = after - (before or metrics.Snapshot()) if after is not None else None
    others = None if then is None or load is None else max(0, round(then.generated - load.generated) - tokens)
    return Remote(name, version, len(prompts), tokens, seconds, _own_figures(answers), seen, others)


def _ask_all(
    client: Client, name: str, prompts: Sequence[str], max_tokens: int, progress: Progress, signals: StopSignals
) -> list[dict[str, Any]]:
    pool = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="probe")
    started = time.monotonic()
    questions = [{"model": name, "prompt": text, "max_tokens": max_tokens, "temperature": 0} for text in prompts]
    asked = [pool.submit(client.post, "/v1/completions", question, _REQUEST_SECONDS) for question in questions]
    pending = set(asked)
    try:
        done: list[dict[str, Any]] = []
        while pending:
            finished, pending = wait(pending, timeout=_POLL, return_when=FIRST_EXCEPTION)
            done += [answer.result() for answer in finished]  # the first failure ends the probe
            if signals.received is not None:
                raise SystemExit(128 + signals.received)
            elapsed = time.monotonic() - started
            if elapsed > TOTAL_SECONDS:
                raise EngineMissingError(f"the server took more than {TOTAL_SECONDS:.0f} s for {len(prompts)} prompts")
            progress.waiting(f"spectool: {len(done)} of {len(prompts)} prompts", elapsed)
        return done
    finally:
        progress.done()
        pool.shutdown(wait=False, cancel_futures=True)
        client.hang_up(lambda seconds: all_ended(asked, seconds))


def _only_model(client: Client) -> str:
    entries = client.get("/v1/models").get("data")
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    found = [name for name in names if isinstance(name, str) and _NAME.fullmatch(name)]
    if not found:
        raise EngineMissingError("the server lists no model")
    if len(found) > 1:
        shown = ", ".join(clean(name)[:80] for name in found[:8])
        raise UsageError(f"the server has {len(found)} models: {shown}", hint="Choose one with --model NAME.")
    return found[0]


def _version(client: Client) -> str | None:
    try:
        version = client.get("/version").get("version")
    except EngineMissingError:
        return None
    return clean(version[:80]) if isinstance(version, str) else None


def _counters(client: Client) -> tuple[metrics.Snapshot | None, Load | None]:
    """Return the server's counters; a gateway often does not hand them out."""
    try:
        text = client.metrics()
    except EngineMissingError:
        return None, None
    return metrics.parse(text), load_of(text)


def _tokens(answer: dict[str, Any]) -> int:
    usage = answer.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if _is_count(count) else 0


def _own_figures(answers: Sequence[dict[str, Any]]) -> metrics.Snapshot | None:
    """Sum `metrics.speculative_decoding` of all answers; None unless every answer has it.

    Its histogram says how many rounds accepted exactly so many tokens (vllm/entrypoints/generate/base/protocol.py,
    0.30 and on); position i was accepted in all rounds that accepted more than i.
    """
    total: list[int] = []
    drafted = 0
    for answer in answers:
        found = answer.get("metrics")
        figures = found.get("speculative_decoding") if isinstance(found, dict) else None
        histogram = figures.get("acceptance_histogram") if isinstance(figures, dict) else None
        if not isinstance(figures, dict) or not isinstance(histogram, list) or not 0 < len(histogram) <= _LONGEST:
            return None
        if not all(_is_count(count) for count in histogram):
            return None
        total += [0] * (len(histogram) - len(total))
        for index, count in enumerate(histogram):
            total[index] += count
        more = figures.get("num_draft_tokens")
        drafted += more if _is_count(more) else 0
    if not total:
        return None
    positions = tuple(sum(total[index + 1 :]) for index in range(len(total) - 1))
    return metrics.Snapshot(sum(total), drafted, sum(positions), positions)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12
