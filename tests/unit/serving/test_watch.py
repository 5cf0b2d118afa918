"""What a running server's counters say, and what the check after the start makes of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectool.resources import package_data
from spectool.serving.acceptance import Expected, Verdict, judge
from spectool.serving.expectation import published_expectation
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


def command_with(k: int) -> list[str]:
    return ["vllm", "serve", "V", "--speculative-config", json.dumps({"method": "dflash", "num_speculative_tokens": k})]


def test_what_was_published_is_compared_with_and_stops_nothing() -> None:
    name = "RedHatAI/Qwen3-8B-speculator.peagle"
    rows = json.loads(package_data("speed", "acceptance.json").read_text(encoding="utf-8"))["rows"]
    seen = [row["tokens"] for row in rows if row["checkpoint"] == name and row["k"] == 7]
    found = published_expectation((name,), command_with(7))
    assert found is not None
    assert 1 < found.length <= min(seen)
    assert "published at K = 7" in found.source
    low = judge(snapshot(1000, 60), found)
    assert (low.verdict, low.fails) == (Verdict.LOW, False)
    assert judge(snapshot(1000, 49), found).fails  # broken is broken, whoever said what
    fewer = published_expectation((name,), command_with(3))
    assert fewer is not None
    assert fewer.length < found.length


@pytest.mark.parametrize(
    ("names", "argv"),
    [
        (("somebody/else",), command_with(7)),
        (("RedHatAI/Qwen3-8B-speculator.peagle",), command_with(8)),  # published at 7 only
        (("RedHatAI/Qwen3-8B-speculator.peagle",), ["vllm", "serve", "V"]),  # served without it
    ],
)
def test_nothing_published_means_nothing_to_compare_with(names: tuple[str, ...], argv: list[str]) -> None:
    assert published_expectation(names, argv) is None
