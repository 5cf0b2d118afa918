"""The speed of a planned launch: ranges by load, the K that suits each, what it takes to pay, or why none is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spectool.planning.fit import Subject
from spectool.planning.gpus import Gpu
from spectool.planning.own import Own
from spectool.speed.adaptive import Adaptive
from spectool.speed.evidence import evidence
from spectool.speed.forecast import LOADS, Case, NotPredictedError, Range, best_k, most_requests, range_at, why_not
from spectool.speed.profile import measured_tokens, speedups
from spectool.speed.published import Row as PublishedRow
from spectool.speed.published import Tokens, given, published, published_rows
from spectool.speed.schedule import Schedule, schedule_of, settle, why_no_schedule
from spectool.speed.subject import case_of

if TYPE_CHECKING:
    from spectool.formats.profile import Profile


@dataclass(frozen=True, slots=True)
class Row:
    """One load: the range at the planned K and at the best one, and the tokens per round from which the plan pays.

    `others` are the ranges at some smaller K, the same ones in each row.
    """

    requests: int
    pays_from: float
    planned: Range | None = None
    best: Range | None = None
    others: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured speed-up over the verifier alone, and the range where one is predicted for its tokens per round."""

    requests: int
    k: int
    speedup: float
    predicted: Range | None = None


@dataclass(frozen=True, slots=True)
class SpeedPlan:
    """What is said about speed. `unknown` says why there are no ranges; `advice` what follows from them.

    `measured` are the points of a profile, and `measured_on` says where they come from. `adaptive` judges DSpark's
    adaptive verification; None for the other methods.
    """

    basis: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    unknown: str | None = None
    advice: tuple[str, ...] = ()
    schedule: Schedule = ()
    measured: tuple[Measured, ...] = ()
    measured_on: str = ""
    adaptive: Adaptive | None = None


def speed_plan(
    subject: Subject,
    gpu: Gpu,
    ranks: int,
    own: Own,
    version: str,
    names: Sequence[str],
    *,
    looks_like: Sequence[str] = (),
    workload: str | None = None,
    tokens: Tokens | None = None,
    profile: Profile | None = None,
    most: int | None = None,
) -> SpeedPlan:
    """Return the speed of a launch: ranges, and beside them what was measured.

    Args:
        subject: both models.
        gpu: each of the `ranks` GPUs.
        ranks: the tensor-parallel size.
        own: the user's flags.
        version: the vLLM release.
        names: of the drafter, to find what is published of it.
        looks_like: published drafters that have its sizes; what is published of them is shown, and not gone by.
        workload: one of `published.WORKLOADS`, or None for any.
        tokens: tokens per round, where they are known better than from what was measured or is published.
        profile: what was measured, shown beside the ranges; its tokens per round are used without `tokens`.
        most: requests that run at a time.

    """
    try:
        case = case_of(subject, gpu.name, ranks, own)
    except NotPredictedError as error:
        return _beside(SpeedPlan(unknown=str(error)), profile, None)
    if most_requests(case.kind) == 0:
        return _beside(SpeedPlan(unknown=why_not(case.kind)), profile, None)
    k = subject.k
    found = tokens or (measured_tokens(profile, k) if profile is not None else None) or published(names, workload, k)
    limit = min(most_requests(case.kind), most or most_requests(case.kind))
    loads = [load for load in LOADS if load <= limit]
    basis = list(_model_basis(case))
    if found is None or found.k < k:
        rows = tuple(Row(load, case.pays_from(load, k)) for load in loads)
        what = f" for {workload}" if workload is not None else ""
        why = f"nobody published tokens per round of this drafter at its K{what}"
        if like := published_rows(looks_like, workload, k):
            why = f"of a drafter of this name nobody published tokens per round{what}; {_alike(looks_like, like)}"
        return _beside(SpeedPlan(tuple(basis), rows, why, tuple(_beyond(case, most))), profile, case)
    spread = f"{found.low:.2f}" if found.low == found.high else f"{found.low:.2f} to {found.high:.2f}"
    basis.insert(0, f"{spread} tokens per round, {found.basis}")
    rows = tuple(_row(case, found, load, k) for load in loads)
    speeds = {load: {tried: range_at(case, found, load, tried).centre for tried in range(k + 1)} for load in loads}
    steps = schedule_of(settle(speeds))
    advice = [*_verdict(rows), *_beyond(case, most), *_about_k(subject, steps, version, own)]
    return _beside(SpeedPlan(tuple(basis), rows, None, tuple(advice), steps), profile, case)


def _alike(names: Sequence[str], rows: Sequence[PublishedRow]) -> str:
    low, high = min(row.tokens for row in rows), max(row.tokens for row in rows)
    spread = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"it looks like {' or '.join(names)}, which had {spread} at K {rows[0].k}: if it is that, --expect LENGTH"


def _beside(plan: SpeedPlan, profile: Profile | None, case: Case | None) -> SpeedPlan:
    """Add what was measured, each point with the range of its own tokens per round."""
    if profile is None:
        return plan
    rates = {(point.requests, point.k): point.tokens_per_round for point in profile.points}
    points = tuple(
        Measured(load, k, value, _range_of(case, rates[load, k], load, k))
        for load, by_k in speedups(profile).items()
        for k, value in by_k.items()
        if k
    )
    where = f"{profile.device}, {profile.engine}, {profile.workload}"
    if profile.synthetic_acceptance is not None:
        where += f", acceptance length {profile.synthetic_acceptance:g} acted out"
    return replace(plan, measured=points, measured_on=where)


def _range_of(case: Case | None, rate: float | None, load: int, k: int) -> Range | None:
    if case is None or rate is None or rate > k + 1:
        return None
    try:
        return range_at(case, given(rate, k, ""), load, k)
    except NotPredictedError:
        return None


def _model_basis(case: Case) -> tuple[str, str]:
    """Say what the cost model rests on, and how far it was tested."""
    known = evidence()
    kind = {"dense": "dense verifiers", "moe": "mixtures of experts"}[case.kind]
    held = known.held[case.kind]
    fitted = f"cost model fitted to {known.tables} tables of {known.publications} publications (docs/speed.md)"
    tested = f"tested by leaving out one of {known.publications} publications after the other"
    share = "" if held is None else f": {held:.0%} of the values of {kind} lay in the range"
    return f"{fitted}, requests of {case.context:g} tokens", tested + share


def _row(case: Case, tokens: Tokens, load: int, k: int) -> Row:
    best = best_k(case, tokens, load, k)
    others = tuple(range_at(case, tokens, load, other) for other in sorted({1, k // 2} - {0, k}))
    planned = range_at(case, tokens, load, k)
    return Row(load, case.pays_from(load, k), planned, range_at(case, tokens, load, best), others)


def _verdict(rows: Sequence[Row]) -> list[str]:
    """Say plainly where it does not pay, with the alternative."""
    losing = [row.requests for row in rows if row.planned is not None and row.planned.high < 1]
    unsure = [row.requests for row in rows if row.planned is not None and row.planned.low < 1 <= row.planned.high]
    said = []
    if losing and len(losing) == len(rows):
        said.append("this drafter will not pay here: serve the verifier without it")
    elif losing:
        said.append(f"from {losing[0]} requests on this drafter will not pay: serve the verifier without it there")
    if unsure:
        many = "request" if unsure == [1] else "requests"
        said.append(f"at {', '.join(map(str, unsure))} {many} it may be slower than the verifier alone: measure")
    return said


def _beyond(case: Case, most: int | None) -> list[str]:
    """Say where the prediction ends, for a launch that takes more requests than that."""
    last = math.floor(most_requests(case.kind))
    if most is not None and most <= last:
        return []
    return [f"above {last} requests at a time: not predicted (docs/speed.md); measure with spectool probe --sweep"]


def _about_k(subject: Subject, steps: Schedule, version: str, own: Own) -> list[str]:
    if {k for _, _, k in steps} in ({subject.k}, {0}):  # of 0 everywhere, the verdict speaks
        return []
    why = why_no_schedule(subject.drafter.method, version, own.data_parallel or 1)
    shown = ", ".join(f"{k} from {first} request{'s' if first > 1 else ''}" for first, _, k in steps)
    said = f"K by load would be {shown}; measure before you change it (spectool probe --sweep)"
    return [said if why is None else f"{said}. {why}"]
