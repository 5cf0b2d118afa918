"""What a running server's counters say, and what the check after the start makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectool.serving.acceptance import Expected, Verdict, judge
from spectool.serving.metrics import Snapshot
from spectool.serving.watch import Load, load_of

TEXT = """\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0
vllm:generation_tokens_total{engine="1",model_name="m"} 20.0
vllm:generation_tokens_created{engine="0",model_name="m"} 1.79e+09
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
"""


def test_engines_are_summed_and_the_fullest_cache_counts() -> None:
    assert load_of(TEXT) == Load(generated=120.0, running=3.0, waiting=1.0, kv_usage=0.5)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-5", "1e300", "x"])
def test_values_that_count_nothing(value: str) -> None:
    assert load_of(f"vllm:generation_tokens_total {value}\nvllm:num_requests_running 2") == Load(running=2.0)


@given(st.text(max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    load_of(f"vllm:generation_tokens_total{text}\n{text}")


def snapshot(drafts: int, accepted: int) -> Snapshot:
    return Snapshot(drafts, 2 * drafts, accepted, (accepted, 0))


@pytest.mark.parametrize(
    ("seen", "expected", "verdict"),
    [
        (None, None, Verdict.NOT_SPECULATING),
        (Snapshot(), 2.0, Verdict.NOT_SPECULATING),
        (snapshot(1000, 49), None, Verdict.BROKEN),
        (snapshot(1000, 50), None, Verdict.GOOD),
        (snapshot(1000, 699), 2.0, Verdict.LOW),
        (snapshot(1000, 700), 2.0, Verdict.GOOD),
        (snapshot(1000, 2000), 2.0, Verdict.GOOD),
        (snapshot(1000, 60), 1.0, Verdict.GOOD),
    ],
)
def test_verdicts_at_their_boundaries(seen: Snapshot | None, expected: float | None, verdict: Verdict) -> None:
    found = judge(seen, Expected(expected, "a test") if expected is not None else None)
    assert found.verdict is verdict
    assert found.fails is (verdict is not Verdict.GOOD)
    if expected is not None and verdict in (Verdict.GOOD, Verdict.LOW):
        assert f"expected {expected:.3f} (a test)" in found.text
