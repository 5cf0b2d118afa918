"""Acceptance by position, expected against measured: bars for a terminal, values for programs, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectool.serving.acceptance import Verdict
from spectool.speed.positions import Positions

_WIDTH = 40
# Filled as measured, expected though not measured, both, neither: for a pipe, and for a terminal.
_PLAIN, _BLOCKS = ("#", "-", "=", " "), ("█", "░", "▓", " ")

# What a verdict asks for; docs/low-acceptance.md has the whole path.
_NEXT = {
    Verdict.NOT_SPECULATING: (
        "See whether the drafter is in the command that was started: spectool serve DRAFTER --verifier V --dry-run",
        "Look for what switches drafting off: min_p, logit_bias, or a server whose statistics are off.",
    ),
    Verdict.BROKEN: (
        "spectool validate DRAFTER --verifier V --weights",
        "spectool probe DRAFTER --verifier V: starts the engine without and with the drafter, on the same prompts.",
    ),
    Verdict.LOW: (
        "spectool validate DRAFTER --verifier V --engine installed: the lines marked differs are the usual reason.",
        "Ask with prompts like those of your users (--prompts FILE): acceptance differs by kind of text.",
    ),
    Verdict.UNKNOWN: ("Ask the server itself rather than a gateway, or turn its per-request figures on.",),
}


def next_steps(verdict: Verdict) -> tuple[str, ...]:
    """Return what to do about a verdict; nothing where it is good."""
    return _NEXT.get(verdict, ())


def bar_lines(shares: Sequence[float], expected: Positions | None = None, *, blocks: bool = False) -> list[str]:
    """Draw a line for each position: the measured share, over the span that was expected.

    Args:
        shares: of the rounds in which each position was accepted, 0 to 1.
        expected: spans; positions beyond it have none.
        blocks: with block characters, for a terminal; else in ASCII.

    """
    if not shares:
        return []
    measured, span, both, empty = _BLOCKS if blocks else _PLAIN
    spans = expected.spans if expected is not None else ()
    lines = []
    for place, share in enumerate(shares):
        low, high = spans[place] if place < len(spans) else (1.0, 0.0)
        first, last = min(round(low * _WIDTH), _WIDTH - 1), round(high * _WIDTH)
        last = max(last, first + 1) if low <= high else 0  # a span of no width is a mark
        cells = [
            {(True, True): both, (True, False): measured, (False, True): span, (False, False): empty}[
                cell < round(share * _WIDTH), first <= cell < last
            ]
            for cell in range(_WIDTH)
        ]
        told = f"  expected {_span(low, high)}" if place < len(spans) else ""
        lines.append(f"position {place + 1:>2} |{''.join(cells)}| {share:>4.0%}{told}")
    if expected is not None:
        lines.append(f"{measured} measured, {span} expected, {both} both; expected {expected.basis}")
    return lines


def positions_record(expected: Positions | None) -> dict[str, Any] | None:
    """Return expected shares as JSON values."""
    if expected is None:
        return None
    return {"low": list(expected.low), "high": list(expected.high), "basis": expected.basis}


def _span(low: float, high: float) -> str:
    one, other = f"{low:.0%}", f"{high:.0%}"
    return one if one == other else f"{one} to {other}"
