"""Fit the constants of `spectool.speed.costs` to published points: robust least squares in logarithms, pure Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from evaluation.points import Point
from spectool.speed.costs import Constants, slowdown, step

# Starting values, and the centre of a weak prior (in logarithms), so that a constant without evidence stays put.
START = {
    "layer": 40e-6,
    "expert_layer": 65e-6,
    "serial_step": 120e-6,
    "round_bytes": 4e9,
    "host": 0.5e-3,
    "hybrid_round": 1e-3,
    "hybrid_token": 8e-6,
    "arithmetic": 0.5,
    "expert_token": 0.3e-6,
}
NAMES = tuple(START)
_PRIOR = 0.05
_LINEAR_BEYOND = 0.2  # a residual beyond 20 % counts linearly, not squared
_BASELINE = 0.5  # weight of the step time without a drafter, beside the speed-up
_STEP = 1e-4
_ROUNDS = 14

Vector = list[float]


def constants(vector: Sequence[float], engine: str) -> Constants:
    """Return the constants a vector stands for, in one engine."""
    value = dict(zip(NAMES, map(math.exp, vector), strict=True))
    return Constants(
        layer=value["layer"],
        expert_layer=value["expert_layer"],
        serial_step=value["serial_step"],
        round_bytes=value["round_bytes"],
        host=0.0 if engine == "vllm" else value["host"],
        hybrid_round=value["hybrid_round"],
        hybrid_token=value["hybrid_token"],
        arithmetic=value["arithmetic"],
        expert_token=value["expert_token"],
    )


def predicted(point: Point, vector: Sequence[float]) -> float:
    """Return the speed-up the model gives a point."""
    fitted = constants(vector, point.engine)
    cost = slowdown(point.machine, point.target, point.draft, point.requests, point.k, point.context, fitted)
    return point.tokens_per_round / cost


def fit(points: Sequence[Point]) -> Vector:
    """Return the logarithms of the constants, in the order of `NAMES`; every publication counts once."""
    start = [math.log(value) for value in START.values()]
    sizes = Counter(point.publication for point in points)

    def residuals(vector: Vector) -> Vector:
        found = []
        for point in points:
            weight = 1 / math.sqrt(sizes[point.publication])
            found.append(weight * _huber(math.log(predicted(point, vector) / point.speedup)))
            if point.baseline:
                fitted = constants(vector, point.engine)
                base = step(point.machine, point.target, point.requests, point.requests, point.context, fitted)
                found.append(_BASELINE * weight * _huber(math.log(base * point.baseline / point.requests)))
        return found + [_PRIOR * (now - then) for now, then in zip(vector, start, strict=True)]

    return _minimise(residuals, start)


def _huber(residual: float) -> float:
    size = abs(residual)
    if size <= _LINEAR_BEYOND:
        return residual
    return math.copysign(math.sqrt(_LINEAR_BEYOND * (2 * size - _LINEAR_BEYOND)), residual)


def _minimise(residuals: Callable[[Vector], Vector], start: Vector) -> Vector:
    """Levenberg-Marquardt with forward differences."""
    vector, damping = list(start), 1e-2
    now = residuals(vector)
    for _ in range(_ROUNDS):
        columns = []
        for index in range(len(vector)):
            moved = list(vector)
            moved[index] += _STEP
            columns.append([(new - old) / _STEP for new, old in zip(residuals(moved), now, strict=True)])
        gradient = [-_dot(column, now) for column in columns]
        matrix = [
            [_dot(a, b) + (damping if i == j else 0.0) for j, b in enumerate(columns)] for i, a in enumerate(columns)
        ]
        change = _solve(matrix, gradient)
        trial = [value + delta for value, delta in zip(vector, change, strict=True)]
        then = residuals(trial)
        if _dot(then, then) < _dot(now, now):
            vector, now, damping = trial, then, damping / 2
        else:
            damping *= 4
    return vector


def _dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _solve(matrix: list[Vector], right: Vector) -> Vector:
    """Solve a small symmetric system by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(column + 1, size):
            factor = rows[row][column] / rows[column][column]
            rows[row] = [value - factor * head for value, head in zip(rows[row], rows[column], strict=True)]
    answer = [0.0] * size
    for row in reversed(range(size)):
        rest = sum(rows[row][column] * answer[column] for column in range(row + 1, size))
        answer[row] = (rows[row][size] - rest) / rows[row][row]
    return answer
