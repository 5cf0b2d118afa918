"""From points to what spectool prints: constants, the width of the range, what is not predicted.

A source is a publication: its tables share authors, machines and drafters, and agree with each other better than with
anybody else's. Nothing here looks at a point that is to be predicted: the evaluation hands in the other points only.

1. Leave each publication out in turn, fit on the rest, and take the logarithms of observed over predicted.
2. Width: an 80 % range for one more publication, `t s` to both sides, with s the root of the mean over publications of
   their mean square, and t the 90 % quantile of Student's distribution with as many degrees of freedom as there are
   publications (the mean is taken as 0, so none is used up). Every publication counts once, however many points it
   has. Both kinds of verifier and both kinds of drafter count together: by kind, two or three would be left.
3. Cells (kind of verifier by load) in which fewer than three quarters of the points lie in the range, or in which it is
   wider than allowed, are not predicted; the worst goes first, then the width is taken again from the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from evaluation.fitting import Vector, fit, predicted
from evaluation.points import Point
from spectool.speed.evidence import KINDS, LOADS, MOST_WIDTH, Cell, Kind

# Student's 90 % quantile by degrees of freedom: 10 % above, 10 % below.
_STUDENT_90 = {2: 1.886, 3: 1.638, 4: 1.533, 5: 1.476, 6: 1.440, 7: 1.415, 8: 1.397, 9: 1.383, 10: 1.372}
LEAST_COVERED = 0.75
LEAST_SOURCES = 2


def kind_of(point: Point) -> Kind:
    """Return the kind of its verifier."""
    return "dense" if point.target.experts is None else "moe"


def cell_of(point: Point) -> Cell:
    """Return the cell it falls into."""
    return kind_of(point), "low" if point.requests < LOADS["high"] else "high"


@dataclass(frozen=True)
class Learned:
    """`half` is the half width in logarithms; `cells` those that are predicted, with the largest load of each.

    The largest load is that of the parallel drafters, which are what spectool serves; 0 where there are none.
    """

    vector: Vector
    half: float
    cells: Mapping[Cell, float]

    def range_of(self, point: Point) -> tuple[float, float, float] | None:
        """Return low, centre and high; None where it is not predicted."""
        if cell_of(point) not in self.cells:
            return None
        centre = predicted(point, self.vector)
        return centre * math.exp(-self.half), centre, centre * math.exp(self.half)


def learn(points: Sequence[Point]) -> Learned:
    """Learn from these points alone."""
    found = residuals(points)
    cells = {(kind, load) for kind in KINDS for load in LOADS}
    while True:
        half = half_width({point: value for point, value in found.items() if cell_of(point) in cells})
        bad = sorted(cell for cell in cells if not _holds(found, cell, half))
        if not bad:
            break
        # The worst first: without it, the width of the others shrinks.
        cells.discard(min(bad, key=lambda cell: _covered(found, cell, half)))
    loads = {cell: [p.requests for p in points if cell_of(p) == cell and not p.draft.serial] for cell in sorted(cells)}
    return Learned(fit(points), half, {cell: max(seen, default=0.0) for cell, seen in loads.items()})


def residuals(points: Sequence[Point]) -> dict[Point, float]:
    """Return log(observed / predicted) of every point, predicted without its publication."""
    found = {}
    for name in sorted({point.publication for point in points}):
        vector = fit([point for point in points if point.publication != name])
        for point in points:
            if point.publication == name:
                found[point] = math.log(point.speedup / predicted(point, vector))
    return found


def half_width(left_out: Mapping[Point, float]) -> float:
    """Return the half width that residuals of left-out publications ask for; infinite where too few are left."""
    squares: dict[str, list[float]] = {}
    for point, residual in left_out.items():
        squares.setdefault(point.publication, []).append(residual**2)
    if len(squares) < LEAST_SOURCES:
        return math.inf
    quantile = _STUDENT_90[min(len(squares), max(_STUDENT_90))]
    return quantile * math.sqrt(mean(mean(values) for values in squares.values()))


def _covered(left_out: Mapping[Point, float], cell: Cell, half: float) -> float:
    inside = [abs(value) <= half for point, value in left_out.items() if cell_of(point) == cell]
    return mean(inside) if inside else 0.0


def _holds(left_out: Mapping[Point, float], cell: Cell, half: float) -> bool:
    return 2 * half <= math.log(MOST_WIDTH[cell[0]]) and _covered(left_out, cell, half) >= LEAST_COVERED
