"""Read vLLM's speculative-decoding counters from its Prometheus text.

Names from vllm/v1/spec_decode/metrics.py (0.32, 0.33), as seen on a running server:
`vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 1.0`.
With data parallelism every engine has its own series; they are summed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PREFIX = "vllm:spec_decode_num_"
_SAMPLE = re.compile(rf"{_PREFIX}(?P<name>\w+)_total(?:\{{(?P<labels>.*)\}})?\s+(?P<value>[^\s]+)")
_POSITION = re.compile(r'(?:^|,)\s*position="(?P<position>\d{1,4})"')


@dataclass(frozen=True)
class Snapshot:
    """The counters at one moment, or what happened between two moments.

    Attributes:
        drafts: verification rounds with drafted tokens.
        draft_tokens: tokens drafted.
        accepted: of those, accepted by the verifier.
        per_position: accepted tokens by position in the draft, first position first.

    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    per_position: tuple[int, ...] = ()

    def __sub__(self, earlier: Snapshot) -> Snapshot:
        """Return what happened since an earlier snapshot of the same server."""
        before = earlier.per_position + (0,) * (len(self.per_position) - len(earlier.per_position))
        return Snapshot(
            self.drafts - earlier.drafts,
            self.draft_tokens - earlier.draft_tokens,
            self.accepted - earlier.accepted,
            tuple(now - then for now, then in zip(self.per_position, before, strict=False)),
        )

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per round, the verifier's own included: 1 + accepted/drafts. None without drafts."""
        return 1 + self.accepted / self.drafts if self.drafts > 0 else None

    @property
    def rates(self) -> tuple[float, ...]:
        """Share of the rounds in which the position was accepted, 0 to 1. Empty without drafts."""
        return tuple(count / self.drafts for count in self.per_position) if self.drafts > 0 else ()


def parse(text: str) -> Snapshot | None:
    """Return the counters in a `/metrics` answer, or None where the server has none (no drafter, or stats are off)."""
    totals: dict[str, int] = {}
    positions: dict[int, int] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = round(float(match["value"]))
        except (ValueError, OverflowError):  # NaN, +Inf
            continue
        if match["name"] == "accepted_tokens_per_pos":
            position = _POSITION.search(match["labels"] or "")
            if position is not None:
                index = int(position["position"])
                positions[index] = positions.get(index, 0) + value
        else:
            totals[match["name"]] = totals.get(match["name"], 0) + value
    if "drafts" not in totals:
        return None
    width = max(positions, default=-1) + 1
    return Snapshot(
        drafts=totals["drafts"],
        draft_tokens=totals.get("draft_tokens", 0),
        accepted=totals.get("accepted_tokens", 0),
        per_position=tuple(positions.get(index, 0) for index in range(width)),
    )


def describe(seen: Snapshot | None) -> str:
    """Return one line for people: what was drafted and accepted."""
    if seen is None:
        return "acceptance: the server reported no speculative-decoding counters"
    if seen.acceptance_length is None:
        return "acceptance: no drafts were made"
    rates = " ".join(f"{100 * rate:.1f}%" for rate in seen.rates)
    drafts = "1 draft" if seen.drafts == 1 else f"{seen.drafts} drafts"
    return f"acceptance: {drafts}, acceptance length {seen.acceptance_length:.3f}, per position {rates}"
