"""The check after a start: a few prompts, and whether the drafter does what it should."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from spectool.errors import EngineMissingError
from spectool.serving import metrics
from spectool.serving.client import Client
from spectool.serving.prompts import default_prompts

if TYPE_CHECKING:
    from spectool.speed.positions import Positions

# Below this acceptance length the drafter is called broken. A drafter that guesses blindly still hits some tokens; the
# golden DFlash pair with a wrong mask token reached 1.17, an untrained head about 1.0, and trained ones start near 1.4.
BROKEN_LENGTH = 1.05
# Of what is gained beyond one token per round: less than this share of the expected gain is low. Prompts differ by
# more than machines do: published medians of one drafter vary by a third between code and prose.
LOW_SHARE = 0.7
# Enough for some hundred rounds, short enough for a start-up.
PROMPTS = 4
TOKENS = 48
# Seconds for one of the prompts; a GPU takes one, the CPU build some.
_TIMEOUT = 120.0
_POLL = 0.1


class Verdict(StrEnum):
    """What the check found."""

    GOOD = "good"
    LOW = "low"
    BROKEN = "broken"
    NOT_SPECULATING = "not speculating"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Expected:
    """An acceptance length to compare with, and where it comes from.

    `binding` says whether falling short of it fails the check: what was measured with other prompts does not.
    `positions`: the same by position of the draft, where it is known.
    """

    length: float
    source: str
    binding: bool = True
    positions: Positions | None = None

    @property
    def least(self) -> float:
        """The least acceptance length that is not low."""
        return 1 + LOW_SHARE * (self.length - 1)

    @property
    def told(self) -> str:
        """The length, its source, and from where on it is reached."""
        return f"{self.length:.3f}, {self.source}; from {self.least:.3f} on it is not low"


@dataclass(frozen=True)
class Judgement:
    """What the check found, and the line that says it. `binding` is that of what it was compared with.

    `shares`: of the rounds in which each position was accepted, 0 to 1.
    """

    verdict: Verdict
    text: str
    binding: bool = True
    shares: tuple[float, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the drafter does not do what it should."""
        if self.verdict is Verdict.LOW:
            return self.binding
        return self.verdict in (Verdict.BROKEN, Verdict.NOT_SPECULATING)


def judge(seen: metrics.Snapshot | None, expected: Expected | None = None) -> Judgement:
    """Judge what was counted while the check's prompts ran.

    Args:
        seen: counters; None where the server has none.
        expected: what to compare with; without it only a broken drafter is told from a working one.

    """
    length = seen.acceptance_length if seen is not None else None
    if seen is None or length is None:
        return Judgement(
            Verdict.NOT_SPECULATING,
            "not speculating: no drafts were made while the check's prompts ran"
            if seen is not None
            else "not speculating: the server has no counters of speculative decoding",
        )
    rates = " ".join(f"{100 * rate:.0f}%" for rate in seen.rates)
    told = f"acceptance length {length:.3f} in {seen.drafts} rounds, per position {rates}"
    if length < BROKEN_LENGTH:
        why = "almost nothing it drafts is accepted; trained for another verifier, or loaded wrongly: spectool validate"
        return Judgement(Verdict.BROKEN, f"broken: {told}; {why}", shares=seen.rates)
    if expected is None:
        return Judgement(Verdict.GOOD, f"good: {told}; nothing to compare with (--expect)", shares=seen.rates)
    against = f"expected {expected.length:.3f} ({expected.source})"
    if length - 1 < LOW_SHARE * (expected.length - 1):
        return Judgement(Verdict.LOW, f"low: {told}; {against}", expected.binding, seen.rates)
    return Judgement(Verdict.GOOD, f"good: {told}; {against}", shares=seen.rates)


class Check:
    """Asks the prompts in a thread, so that signals and the end of the engine are seen meanwhile.

    Args:
        client: asks.
        model: served name.
        expected: what to compare with.
        prompts: to complete, one after the other: together their rounds would depend on the batch.

    """

    def __init__(
        self, client: Client, model: str, expected: Expected | None = None, prompts: Sequence[str] | None = None
    ) -> None:
        self._client = client
        self._model = model
        self._expected = expected
        self._prompts = list(prompts) if prompts is not None else default_prompts()[:PROMPTS]
        self._judgement: Judgement | None = None
        self._stop = threading.Event()
        self.asked = 0

    def run(self, stopped: Callable[[], bool], tick: Callable[[], None]) -> Judgement | None:
        """Return what was found, or None where `stopped` came first.

        Args:
            stopped: whether to leave off.
            tick: called while waiting.

        """
        thread = threading.Thread(target=self._ask, name="check", daemon=True)
        thread.start()
        while thread.is_alive():
            if stopped():
                self._stop.set()
                self._client.hang_up(lambda seconds: _has_ended(thread, seconds))
                return None
            tick()
            time.sleep(_POLL)
        return None if stopped() else self._judgement

    def _ask(self) -> None:
        try:
            before = metrics.parse(self._client.metrics())
            tokens = 0
            for prompt in self._prompts:
                if self._stop.is_set():
                    return
                tokens += len(self._client.complete(self._model, prompt, TOKENS, _TIMEOUT).tokens)
                self.asked += 1
            after = metrics.parse(self._client.metrics())
        except EngineMissingError as error:
            self._judgement = Judgement(Verdict.UNKNOWN, f"unknown: {error.message}")
            return
        seen = after - (before or metrics.Snapshot()) if after is not None else None
        found = judge(seen, self._expected)
        # Every round yields a token of ours at least; more rounds were somebody else's.
        if seen is not None and seen.drafts > tokens:
            found = replace(found, text=f"{found.text} (other requests ran meanwhile and are in it)")
        self._judgement = found


def _has_ended(thread: threading.Thread, seconds: float) -> bool:
    thread.join(seconds)
    return not thread.is_alive()
