"""Points nothing was fitted to: what is printed for them, against what was measured.

Two kinds are left. One table states tokens per round (`blind.json`), but was measured in Transformers, whose passes are
launched one kernel at a time. Two curves of vLLM state none (`speedups.json`, not used): of them only the shape can be
tested, by the tokens per round the model would need, which must be the same at every load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from evaluation.fitting import constants
from evaluation.learning import Learned, cell_of
from evaluation.points import Point, blind_points, raw, to_point
from spectool.speed.costs import slowdown
from spectool.speed.evidence import Cell

_CURVES = ("redhat_gemma31b", "redhat_qwen3-30b")


@dataclass(frozen=True, slots=True)
class Curve:
    """Tokens per round the model needs at the lowest and at the highest load it predicts, and over all of them."""

    points: int
    requests: tuple[float, float]
    needed: tuple[float, float]
    spread: float


def blind_judged(final: Learned, printed: Sequence[Cell]) -> list[tuple[Point, tuple[float, float, float] | None]]:
    """Return every blind point with the range that is printed: the constants of vLLM, the cells that are printed."""
    return [(point, final.range_of(point) if cell_of(point) in printed else None) for point in blind_points()]


def needed_tokens(point: Point, final: Learned) -> float:
    """Return the tokens per round that make the model's speed-up the measured one."""
    fitted = constants(final.vector, point.engine)
    return point.speedup * slowdown(
        point.machine, point.target, point.draft, point.requests, point.k, point.context, fitted
    )


def curve(group: str, final: Learned) -> Curve:
    """Return what a series without tokens per round says about the shape, over all its loads."""
    found = sorted((to_point(item) for item in raw() if item["group"] == group), key=lambda point: point.requests)
    needed = [needed_tokens(point, final) for point in found]
    return Curve(
        len(found), (found[0].requests, found[-1].requests), (needed[0], needed[-1]), max(needed) / min(needed)
    )


def shape_lines(final: Learned) -> list[str]:
    """Return the table of curves."""
    lines = [
        "| verifier, drafter | n | requests | tokens per round needed, first and last | highest over lowest |",
        "|---|---|---|---|---|",
    ]
    for group in _CURVES:
        first = next(item for item in raw() if item["group"] == group)
        found = curve(group, final)
        lines.append(
            f"| {first['target']}, {first['method']} | {found.points} | {found.requests[0]:.0f} to "
            f"{found.requests[1]:.0f} | {found.needed[0]:.2f}, {found.needed[1]:.2f} | {found.spread:.2f} |"
        )
    return lines


def bias(judged: Sequence[tuple[Point, tuple[float, float, float] | None]]) -> float:
    """Return the median of predicted over measured, less one."""
    return median(found[1] / point.speedup for point, found in judged if found is not None) - 1
