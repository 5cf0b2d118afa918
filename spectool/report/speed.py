"""The speed of a launch plan, for people and for programs."""

from __future__ import annotations

from typing import Any

from spectool.speed.forecast import Range
from spectool.speed.plan import SpeedPlan
from spectool.speed.profile import plot


def speed_lines(plan: SpeedPlan) -> list[str]:
    """Return the table of ranges with its basis; without ranges, what it takes to pay off, and why none is given.

    What was measured is drawn below, over the range of each point where there is one.
    """
    adaptive = [] if plan.adaptive is None else [plan.adaptive.line]
    return [*_range_lines(plan), *measured_lines(plan), *adaptive]


def measured_lines(plan: SpeedPlan) -> list[str]:
    """Return the plot of what was measured; nothing without it."""
    if not plan.measured:
        return []
    values = {(point.requests, point.k): point.speedup for point in plan.measured}
    ranges = {(p.requests, p.k): (p.predicted.low, p.predicted.high) for p in plan.measured if p.predicted is not None}
    return [f"measured (o) on {plan.measured_on}; predicted (-) for the same tokens per round:", *plot(values, ranges)]


def _range_lines(plan: SpeedPlan) -> list[str]:
    if not plan.rows:
        return [f"speed: not predicted: {plan.unknown}"]
    if plan.unknown is not None:
        needed = ", ".join(f"{row.pays_from:.2f} at {row.requests}" for row in plan.rows)
        return [
            f"speed: not predicted: {plan.unknown}",
            f"  break-even in tokens per round (by requests at a time): {needed}",
            *(f"  basis: {line}" for line in plan.basis),
            *(f"  {line}" for line in plan.advice),
        ]
    lines = ["speed over the verifier alone  80 % range  break-even*  best K"]
    for row in plan.rows:
        planned, best = row.planned, row.best
        if planned is None or best is None:
            continue
        label = f"{row.requests} request{'s' if row.requests > 1 else ''} at a time, K {planned.k}"
        lines.append(f"{label:<29}  {span_of(planned):<10}  {row.pays_from:>11.2f}  {best_of(best, planned)}")
    lines.append("  * tokens per round at which it is as fast as the verifier alone")
    for place, first in enumerate(plan.rows[0].others):
        found = ", ".join(f"{span_of(row.others[place])} at {row.requests}" for row in plan.rows)
        lines.append(f"  with K {first.k}: {found}")
    lines += [f"  basis: {line}" for line in plan.basis]
    return lines + [f"  {line}" for line in plan.advice]


def speed_record(plan: SpeedPlan) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "predicted": plan.unknown is None,
        "unknown": plan.unknown,
        "basis": list(plan.basis),
        "by_requests": [
            {
                "requests": row.requests,
                "pays_from_tokens_per_round": round(row.pays_from, 3),
                "planned": _range(row.planned),
                "best": _range(row.best),
            }
            | ({"smaller": [_range(other) for other in row.others]} if row.others else {})
            for row in plan.rows
        ],
        "advice": list(plan.advice),
        "k_by_requests": [list(step) for step in plan.schedule],
        "adaptive_verification": None
        if plan.adaptive is None
        else {"advised": plan.adaptive.holds, "reasons": list(plan.adaptive.reasons)},
        "measured": [
            {
                "requests": point.requests,
                "k": point.k,
                "speedup": round(point.speedup, 3),
                "predicted": _range(point.predicted),
            }
            for point in plan.measured
        ],
    }


def said_of(plan: SpeedPlan) -> list[str]:
    """Return what goes with the figures, line by line: their basis, advice, and where the measured ones come from."""
    lines = [f"basis: {line}" for line in plan.basis]
    lines += plan.advice
    lines += [f"measured on {plan.measured_on}"] if plan.measured else []
    return lines + ([] if plan.adaptive is None else [plan.adaptive.line])


def span_of(found: Range) -> str:
    """Return a range as people read it."""
    return f"{found.low:.2f}-{found.high:.2f}"


def best_of(best: Range, planned: Range) -> str:
    """Return the best K with its range, or that it is the planned one."""
    if best.k == 0:
        return "0: without it"
    return "same" if best.k == planned.k else f"{best.k} ({span_of(best)})"


def _range(found: Range | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"k": found.k, "low": round(found.low, 3), "centre": round(found.centre, 3), "high": round(found.high, 3)}
