"""From points to what spectool prints: constants, the width of the range by kind of verifier, what is not predicted.

Nothing here looks at a point that is to be predicted: the evaluation hands in the other sources only.

1. Leave each source out in turn, fit on the rest, and take the logarithms of observed over predicted.
2. Width: the range is the prediction times or over exp(1.28 s), an 80 % range of a normal error, with s the root of the
   mean over sources of the mean square: every source counts once, however many points it has. Only parallel drafters
   count, since spectool serves no others; serial ones (EAGLE-3) help to fit what verification costs.
3. Cells (kind of verifier by load) in which fewer than three quarters of these points lie in the range, or in which it
   is wider than allowed, are not predicted; the worst goes first, then the widths are taken again from the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from evaluation.fitting import Vector, fit, predicted
from evaluation.points import Point
from spectool.speed.evidence import KINDS, LOADS, MOST_WIDTH, Cell, Kind

_NORMAL_90 = 1.2816  # the 90 % quantile: 10 % above, 10 % below
LEAST_COVERED = 0.75
LEAST_SOURCES = 2

Source = Callable[[Point], str]


def kind_of(point: Point) -> Kind:
    """Return the kind of its verifier."""
    return "dense" if point.target.experts is None else "moe"


def cell_of(point: Point) -> Cell:
    """Return the cell it falls into."""
    return kind_of(point), "low" if point.requests < LOADS["high"] else "high"


@dataclass(frozen=True)
class Learned:
    """`half` is the half width in logarithms by kind; `cells` those that are predicted, with the largest load seen."""

    vector: Vector
    half: Mapping[Kind, float]
    cells: Mapping[Cell, float]

    def range_of(self, point: Point) -> tuple[float, float, float] | None:
        """Return low, centre and high; None where it is not predicted."""
        if cell_of(point) not in self.cells:
            return None
        centre, half = predicted(point, self.vector), self.half[kind_of(point)]
        return centre * math.exp(-half), centre, centre * math.exp(half)


def learn(points: Sequence[Point], source: Source) -> Learned:
    """Learn from these points alone; `source` says what is left out together."""
    parallel = {point: value for point, value in residuals(points, source).items() if not point.draft.serial}
    cells = {(kind, load) for kind in KINDS for load in LOADS}
    while True:
        half = {kind: width for kind in KINDS if (width := _half_width(parallel, source, kind, cells)) is not None}
        bad = sorted(cell for cell in cells if not _holds(parallel, cell, half))
        if not bad:
            break
        # The worst first: without it, the widths of the others shrink.
        cells.discard(min(bad, key=lambda cell: _covered(parallel, cell, half)))
    seen = {cell: max(point.requests for point in parallel if cell_of(point) == cell) for cell in sorted(cells)}
    return Learned(fit(points), half, seen)


def residuals(points: Sequence[Point], source: Source) -> dict[Point, float]:
    """Return log(observed / predicted) of every point, predicted without its source."""
    found = {}
    for name in sorted({source(point) for point in points}):
        vector = fit([point for point in points if source(point) != name])
        for point in points:
            if source(point) == name:
                found[point] = math.log(point.speedup / predicted(point, vector))
    return found


def _half_width(left_out: Mapping[Point, float], source: Source, kind: Kind, cells: set[Cell]) -> float | None:
    squares: dict[str, list[float]] = {}
    for point, residual in left_out.items():
        if kind_of(point) == kind and cell_of(point) in cells:
            squares.setdefault(source(point), []).append(residual**2)
    if len(squares) < LEAST_SOURCES:
        return None
    return _NORMAL_90 * math.sqrt(mean(mean(values) for values in squares.values()))


def _covered(left_out: Mapping[Point, float], cell: Cell, half: Mapping[Kind, float]) -> float:
    inside = [abs(value) <= half.get(cell[0], 0.0) for point, value in left_out.items() if cell_of(point) == cell]
    return mean(inside) if inside else 0.0


def _holds(left_out: Mapping[Point, float], cell: Cell, half: Mapping[Kind, float]) -> bool:
    if cell[0] not in half or 2 * half[cell[0]] > math.log(MOST_WIDTH[cell[0]]):
        return False
    return _covered(left_out, cell, half) >= LEAST_COVERED
