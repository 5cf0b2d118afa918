"""What a measured profile says: speed-up by load and K, and the K to serve with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spectool.speed.published import Tokens
from spectool.speed.schedule import Schedule, schedule_of, settle, why_no_schedule

if TYPE_CHECKING:
    from spectool.formats.profile import Profile

# Noise of short measurements: beyond it, speed-up over tokens per round is not noise.
_MARGIN = 1.15


@dataclass(frozen=True, slots=True)
class Choice:
    """What to serve with. `k` 0: without the drafter. `schedule` is empty where one K is best, or vLLM follows none."""

    k: int
    schedule: Schedule
    reasons: tuple[str, ...]


def speedups(profile: Profile) -> dict[int, dict[int, float]]:
    """Return speed over the verifier alone by load and K; loads at which the verifier alone was not measured lack."""
    alone = {point.requests: point.tokens_per_second for point in profile.points if point.k == 0}
    found: dict[int, dict[int, float]] = {}
    for point in sorted(profile.points, key=lambda point: (point.requests, point.k)):
        if point.requests in alone:
            found.setdefault(point.requests, {})[point.k] = point.tokens_per_second / alone[point.requests]
    return found


def measured_tokens(profile: Profile, k: int) -> Tokens | None:
    """Return the tokens per round of a profile, lowest to highest over its loads; None where none carry over to `k`.

    Taken from the smallest measured K that is not below `k`: a figure of a smaller one says nothing about it.
    """
    rates: dict[int, list[float]] = {}
    for point in profile.points:
        if point.k >= k and point.tokens_per_round is not None:
            rates.setdefault(point.k, []).append(min(point.tokens_per_round, point.k + 1.0))
    if not rates or k < 1:
        return None
    nearest = min(rates)
    how = "acted out" if profile.synthetic_acceptance is not None else f"measured with {profile.workload}"
    return Tokens(min(rates[nearest]), max(rates[nearest]), nearest, f"{how} at K = {nearest} on {profile.device}")


def choose(profile: Profile, version: str, copies: int = 1) -> Choice:
    """Choose K from measurements: by load where vLLM follows a schedule, else the best over all loads.

    Without a schedule the K whose worst loss against the best of each load is smallest is taken.

    Raises:
        ValueError: no load has both the verifier alone and a drafter, or a speed-up is impossible.

    """
    measured = {load: by_k for load, by_k in speedups(profile).items() if len(by_k) > 1}
    if not measured:
        raise ValueError("no load was measured with and without the drafter")
    _refuse_impossible(profile, measured)
    best = settle(measured)
    shown = ", ".join(f"{measured[load][k]:.2f} x at {load} with K {k}" for load, k in best.items())
    reasons = [f"measured best: {shown}"]
    if set(best.values()) == {0}:
        return Choice(0, (), (*reasons, "this drafter does not pay here: serve the verifier without it"))
    why = why_no_schedule(profile.method, version, copies)
    if len(set(best.values())) > 1 and why is None:
        return Choice(max(best.values()), schedule_of(best), tuple(reasons))
    if len(set(best.values())) > 1 and why is not None:
        reasons.append(why)
    k = _least_regret(measured)
    if k == 0:
        reasons.append("over all loads the verifier is best served without it")
    return Choice(k, (), tuple(reasons))


def _refuse_impossible(profile: Profile, measured: Mapping[int, Mapping[int, float]]) -> None:
    """Refuse a speed-up above the tokens per round: a round never costs less than a step.

    Raises:
        ValueError: one does: the machine was not the same for both.

    """
    for point in profile.points:
        found = measured.get(point.requests, {}).get(point.k, 0.0)
        if point.tokens_per_round is not None and found > _MARGIN * point.tokens_per_round:
            raise ValueError(
                f"K = {point.k} at {point.requests} requests is {found:.2f} times faster at "
                f"{point.tokens_per_round:.2f} tokens per round, which cannot be: something else kept the "
                "machine busy meanwhile. Measure again"
            )


def _least_regret(measured: Mapping[int, Mapping[int, float]]) -> int:
    everywhere = set.intersection(*(set(by_k) for by_k in measured.values()))
    worst = {k: min(by_k[k] / max(by_k.values()) for by_k in measured.values()) for k in everywhere}
    return max(worst, key=lambda k: (worst[k], -k))


def plot(
    measured: Mapping[tuple[int, int], float],
    predicted: Mapping[tuple[int, int], tuple[float, float]],
    width: int = 48,
) -> list[str]:
    """Draw speed-ups by (requests, K): measured (`o`) over the predicted range (`-`), one line each; `|` marks 1."""
    if not measured:
        return []
    most = max(2.0, *measured.values(), *(end for ends in predicted.values() for end in ends))

    def at(value: float) -> int:
        return min(width - 1, max(0, round(value / most * (width - 1))))

    lines = []
    for (load, k), value in sorted(measured.items()):
        cells = [" "] * width
        low, high = predicted.get((load, k), (0.0, 0.0))
        if high:
            cells[at(low) : at(high) + 1] = "-" * (at(high) - at(low) + 1)
        cells[at(1.0)] = "|"
        cells[at(value)] = "o"
        span = f"  predicted {low:.2f}-{high:.2f}" if high else ""
        lines.append(f"{load:>4} x K {k:<2} [{''.join(cells)}] {value:.2f}{span}")
    return [*lines, f"{'':>10} 0{'':{width - 2}}{most:.1f} times the verifier alone"]
