"""Does the chosen K lose against the best measured one?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evaluation.fitting import predicted
from evaluation.learning import Learned
from evaluation.points import Point, points
from spectool.speed.tokens import shorten


def choice_losses(learned: Mapping[str, Learned]) -> dict[str, list[float]]:
    """Return the losses of speed-up, learned without the publication that is chosen for.

    With tokens per round measured at each K, and at the largest K alone.
    """
    settings: dict[tuple[object, ...], list[Point]] = {}
    for point in points():
        settings.setdefault(point.setting, []).append(point)
    losses: dict[str, list[float]] = {"measured at each K": [], "measured at the largest K": []}
    for group in settings.values():
        if len({point.k for point in group}) < 2:
            continue
        vector = learned[group[0].publication].vector
        longest = max(group, key=lambda point: point.k)
        best = max(point.speedup for point in group)
        at_each = max(group, key=lambda point: predicted(point, vector))
        shortened = {
            point: predicted(replace(point, tokens_per_round=_shortened(longest, point.k)), vector) for point in group
        }
        at_longest = max(group, key=lambda point: shortened[point])
        losses["measured at each K"].append(1 - at_each.speedup / best)
        losses["measured at the largest K"].append(1 - at_longest.speedup / best)
    return losses


def _shortened(longest: Point, k: int) -> float:
    return shorten(min(longest.tokens_per_round, longest.k + 1.0), longest.k, k)
