"""What a running server does, from its own counters: acceptance, throughput, requests, KV cache."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from spectool.errors import EngineMissingError
from spectool.serving import metrics
from spectool.serving.client import Client

# vllm/v1/metrics/loggers.py (0.32, 0.33), as seen on a running server.
_SAMPLE = re.compile(r"vllm:(?P<name>\w+)(?:\{.*\})?\s+(?P<value>[^\s]+)$")
_COUNTED = {
    "generation_tokens_total": "generated",
    "num_requests_running": "running",
    "num_requests_waiting": "waiting",
    "kv_cache_usage_perc": "kv_usage",
}


@dataclass(frozen=True)
class Load:
    """What a server has generated, and what it does now.

    Attributes:
        generated: tokens since its start.
        running: requests in the batch.
        waiting: requests in the queue.
        kv_usage: share of the KV cache in use, 0 to 1; of several engines the fullest.

    """

    generated: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    kv_usage: float = 0.0


def load_of(text: str) -> Load:
    """Return the load in a `/metrics` answer; what is missing is 0. Engines are summed."""
    found = dict.fromkeys(_COUNTED.values(), 0.0)
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        field = _COUNTED.get(match["name"]) if match else None
        if match is None or field is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if not 0 <= value < 1e15:  # NaN and infinity too
            continue
        found[field] = max(found[field], value) if field == "kv_usage" else found[field] + value
    return Load(**found)


class Watch:
    """Looks at a server's counters from time to time, and remembers the last answer.

    Args:
        client: asks; None for a server without HTTP.

    """

    def __init__(self, client: Client | None) -> None:
        self._client = client
        self._asked = time.monotonic()
        self._seen: metrics.Snapshot | None = None
        self._load = Load()
        self._answered = False
        self._base: tuple[metrics.Snapshot | None, Load] = (None, Load())
        self._checked = False
        self.started = False

    def begin(self) -> None:
        """Count from now on: what the check's own prompts did is told apart."""
        self.look(every=0.0)
        self._base = (self._seen, self._load)
        self._checked = True

    def look(self, every: float) -> str | None:
        """Ask for the counters if the last time is long enough ago.

        Returns:
            What happened since the last look, or None without an answer or without anything generated.

        """
        if self._client is None or not self.started or time.monotonic() - self._asked < every:
            return None
        before, load, since = self._seen, self._load, self._asked
        self._asked = time.monotonic()
        try:
            text = self._client.metrics()
        except EngineMissingError:
            return None  # it may be on its way out; the last counters stay
        self._seen, self._load, self._answered = metrics.parse(text), load_of(text), True
        tokens = self._load.generated - load.generated
        if tokens <= 0 or self._asked <= since:
            return None
        return self._line(_between(before, self._seen), tokens / (self._asked - since))

    def _line(self, step: metrics.Snapshot | None, speed: float) -> str:
        now = self._load
        drafted = "no drafts"
        if step is not None and step.acceptance_length is not None:
            rates = " ".join(f"{100 * rate:.0f}%" for rate in step.rates)
            drafted = f"acceptance length {step.acceptance_length:.2f} ({rates})"
        return (
            f"{drafted}, {speed:.1f} tokens/s, {now.running:.0f} running, {now.waiting:.0f} waiting, "
            f"KV cache {100 * now.kv_usage:.0f}%"
        )

    def text(self, *, by_itself: bool) -> str:
        """Return the line for the user at the end."""
        if not self._answered:
            return "acceptance: unknown, the server did not tell"
        base, load = self._base
        if self._checked and self._load.generated == load.generated and self._seen == base and self._seen is not None:
            text = "acceptance: no requests came after the check"
        else:
            text = metrics.describe(_between(base, self._seen))
        if by_itself:
            text += f" (seen {time.monotonic() - self._asked:.0f} s before the end)"
        return text


def _between(before: metrics.Snapshot | None, after: metrics.Snapshot | None) -> metrics.Snapshot | None:
    return after if after is None or before is None else after - before
