"""The speed range, for every input in its domain."""

import dataclasses
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from spectool.speed import published
from spectool.speed.costs import Constants, Draft, Experts, Machine, Target, slowdown
from spectool.speed.evidence import KINDS, Evidence
from spectool.speed.forecast import Case, best_k, range_at
from spectool.speed.tokens import acceptance_of, shorten, tokens_at

_seconds = st.floats(1e-7, 1e-2)
_constants = st.builds(
    Constants,
    layer=_seconds,
    expert_layer=_seconds,
    serial_step=_seconds,
    round_bytes=st.floats(0, 1e11),
    host=st.floats(0, 1e-2),
    hybrid_round=_seconds,
    hybrid_token=st.floats(0, 1e-4),
    arithmetic=st.floats(0.05, 1),
    expert_token=st.floats(0, 1e-5),
)
_machines = st.builds(
    Machine,
    bandwidth=st.floats(1e11, 2e13),
    arithmetic=st.floats(1e13, 1e16),
    bandwidth_share=st.floats(0.3, 1),
    arithmetic_share=st.floats(0.3, 1),
    ranks=st.sampled_from((1, 2, 8)),
    link=st.none() | st.just((5e-6, 1e-11)),
)
_experts = st.builds(
    Experts,
    layers=st.integers(1, 100),
    count=st.integers(8, 512),
    active=st.integers(1, 8),
    parameters=st.floats(1e5, 1e8),
)
_targets = st.builds(
    Target,
    layers=st.integers(1, 130),
    hidden=st.integers(64, 20000),
    parameters=st.floats(1e7, 1e12),
    cache_bytes=st.floats(0, 1e6),
    experts=st.none() | _experts,
    hybrid=st.booleans(),
)
_drafts = st.builds(
    Draft, layers=st.integers(1, 8), parameters=st.floats(1e5, 1e10), serial=st.booleans(), markov=st.booleans()
)
_cases = st.builds(Case, machine=_machines, target=_targets, draft=_drafts, context=st.floats(0, 1e5))
_k = st.integers(1, 32)
_requests = st.integers(1, 1024)


@st.composite
def _known(draw: st.DrawFn) -> Evidence:
    half = draw(st.floats(0, 1))
    cells = {(kind, "high"): 1e9 for kind in KINDS}
    shares = dict.fromkeys(KINDS, draw(st.none() | st.floats(0, 1)))
    return Evidence(draw(_constants), half, cells, 3, 2, shares)


@settings(max_examples=60)
@given(case=_cases, known=_known(), k=_k, requests=_requests, share=st.floats(0, 1), width=st.floats(0, 1))
def test_the_range_contains_its_centre_and_is_finite(
    case: Case, known: Evidence, k: int, requests: int, share: float, width: float
) -> None:
    low = 1 + share * k
    tokens = published.Tokens(low, low + width * (k + 1 - low), k, "")
    found = range_at(case, tokens, requests, k, known)
    assert 0 < found.low <= found.centre * (1 + 1e-12)
    assert found.centre <= found.high * (1 + 1e-12)
    assert math.isfinite(found.high)


@settings(max_examples=40)
@given(case=_cases, known=_known(), requests=_requests)
def test_without_drafts_the_speed_is_exactly_that_of_the_verifier(case: Case, known: Evidence, requests: int) -> None:
    assert case.pays_from(requests, 0, known) == 1.0
    found = range_at(case, published.given(3.0, 7, ""), requests, 0, known)
    assert (found.low, found.centre, found.high) == (1.0, 1.0, 1.0)


@settings(max_examples=60)
@given(case=_cases, known=_known(), k=_k, requests=_requests, shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_more_tokens_per_round_are_never_slower(
    case: Case, known: Evidence, k: int, requests: int, shares: tuple[float, float]
) -> None:
    fewer, more = (published.given(1 + share * k, k, "") for share in sorted(shares))
    for tried in range(k + 1):
        one, other = range_at(case, fewer, requests, tried, known), range_at(case, more, requests, tried, known)
        assert one.low <= other.low * (1 + 1e-9)
        assert one.high <= other.high * (1 + 1e-9)


@settings(max_examples=60)
@given(machine=_machines, target=_targets, drafter=_drafts, fitted=_constants, k=_k, requests=_requests, data=st.data())
def test_higher_overhead_is_never_faster(
    machine: Machine,
    target: Target,
    drafter: Draft,
    fitted: Constants,
    k: int,
    requests: int,
    data: st.DataObject,
) -> None:
    # Not those that make the ordinary step slower as well.
    name = data.draw(st.sampled_from(("serial_step", "round_bytes", "host", "hybrid_round", "hybrid_token")))
    slower = dataclasses.replace(fitted, **{name: getattr(fitted, name) * 2 + 1e-6})
    now = slowdown(machine, target, drafter, requests, k, 1000, fitted)
    assert slowdown(machine, target, drafter, requests, k, 1000, slower) >= now


@settings(max_examples=60)
@given(target=_targets, machine=_machines, drafter=_drafts, fitted=_constants, k=_k, requests=_requests)
def test_a_round_never_costs_less_than_a_step(
    target: Target, machine: Machine, drafter: Draft, fitted: Constants, k: int, requests: int
) -> None:
    assert slowdown(machine, target, drafter, requests, k, 1000, fitted) >= 1.0


@settings(max_examples=30)
@given(case=_cases, known=_known(), requests=_requests, share=st.floats(0, 1))
def test_no_other_k_is_better_than_the_chosen_one(case: Case, known: Evidence, requests: int, share: float) -> None:
    tokens = published.given(1 + share * 7, 7, "")
    chosen = best_k(case, tokens, requests, 7, known)
    centre = range_at(case, tokens, requests, chosen, known).centre
    assert centre >= 1.0  # K = 0 is always there
    assert all(range_at(case, tokens, requests, k, known).centre <= centre for k in range(8))


@given(acceptance=st.floats(0, 1), k=_k)
def test_acceptance_and_tokens_are_each_others_inverse(acceptance: float, k: int) -> None:
    tokens = tokens_at(acceptance, k)
    assert math.isclose(tokens_at(acceptance_of(min(tokens, k + 1.0), k), k), tokens, rel_tol=1e-9)


@given(share=st.floats(0, 1), k=_k, data=st.data())
def test_fewer_drafts_give_no_more_tokens(share: float, k: int, data: st.DataObject) -> None:
    tokens = 1 + share * k
    fewer = data.draw(st.integers(0, k))
    assert 1.0 <= shorten(tokens, k, fewer) <= tokens * (1 + 1e-9)
