"""What a launch plan says about speed."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from evaluation.points import draft_named, target_named

from spectool.planning.own import own_flags
from spectool.report.speed import speed_lines, speed_record
from spectool.speed import plan as plan_module
from spectool.speed.evidence import evidence
from spectool.speed.forecast import Case, NotPredictedError, most_requests, range_at, ranges, why_not
from spectool.speed.machines import machine_of
from spectool.speed.plan import Row, SpeedPlan
from spectool.speed.published import given

_A100 = machine_of("a100-80gb", 1)
assert _A100 is not None
_CASE = Case(_A100, target_named("Qwen3-8B"), draft_named("peagle", "Qwen3-8B"))
_MOE = replace(_CASE, target=target_named("Qwen3-30B-A3B"), draft=draft_named("dflash", "Qwen3-30B-A3B"))


def test_the_seed_lies_in_its_range() -> None:
    # Qwen3-8B, P-EAGLE, GSM8K, one A100: 2.85 at 2.2 requests, 2.02 at 15.2 (vLLM blog 2026-07-28).
    tokens = given(3.82, 7, "card")
    two, fifteen = range_at(_CASE, tokens, 2, 7), range_at(_CASE, tokens, 15, 7)
    assert two.low < 2.85 < two.high
    assert fifteen.low < 2.02 < fifteen.high


def test_the_last_measured_load_is_predicted_and_the_next_is_not() -> None:
    tokens = given(3.82, 7, "card")
    most = int(most_requests("dense"))
    assert range_at(_CASE, tokens, most, 7).k == 7
    with pytest.raises(NotPredictedError, match=f"above {most}"):
        range_at(_CASE, tokens, most + 1, 7)


def test_a_mixture_of_experts_ends_earlier() -> None:
    assert most_requests("moe") < most_requests("dense")
    assert {found.requests for found in ranges(_MOE, given(3.0, 7, ""), [7])} == {1, 2, 4, 8}


def test_a_kind_that_missed_is_named_as_such() -> None:
    nothing = replace(evidence(), cells={("dense", "low"): 15.0})
    with pytest.raises(NotPredictedError, match="missed its evaluation"):
        range_at(_MOE, given(3.0, 7, ""), 1, 7, nothing)
    assert "docs/speed.md" in why_not("moe", nothing)


def _rows(tokens: float) -> list[Row]:
    found = given(tokens, 7, "")
    return [plan_module._row(_CASE, found, load, 7) for load in (1, 8, 15)]


def test_a_drafter_that_will_not_pay_is_told_so() -> None:
    assert plan_module._verdict(_rows(1.0)) == ["this drafter will not pay here: serve the verifier without it"]


def test_a_drafter_that_never_pays_has_no_k_to_choose() -> None:
    rows = _rows(1.0)
    assert "0: without it" in speed_lines(SpeedPlan(("published",), tuple(rows)))[1]
    subject: Any = SimpleNamespace(k=7, drafter=SimpleNamespace(method="dflash"))
    assert plan_module._about_k(subject, ((1, 4096, 0),), "0.33.0", own_flags(())) == []
    assert "3 from 9 requests" in plan_module._about_k(subject, ((1, 8, 7), (9, 64, 3)), "0.33.0", own_flags(()))[0]


def test_one_that_pays_at_low_load_only_is_told_from_where_on() -> None:
    said = plan_module._verdict(_rows(1.5))
    assert said[0] == "from 15 requests on this drafter will not pay: serve the verifier without it there"


def test_one_that_pays_everywhere_is_told_nothing() -> None:
    assert plan_module._verdict(_rows(6.0)) == []


def test_the_table_has_a_line_a_load_with_break_even_and_basis() -> None:
    shown = SpeedPlan(("published",), tuple(_rows(3.82)), None, ("advice",))
    lines = speed_lines(shown)
    assert lines[1].startswith("1 request at a time, K 7")
    assert lines[3].startswith("15 requests at a time, K 7")
    assert lines[1].split()[-2:] == ["1.32", "same"]
    assert lines[-2:] == ["  basis: published", "  advice"]
    one = range_at(_CASE, given(3.82, 7, ""), 1, 3)
    assert f"  with K 3: {one.low:.2f}-{one.high:.2f} at 1, " in "\n".join(lines)
    assert [found["k"] for found in speed_record(shown)["by_requests"][0]["smaller"]] == [1, 3]
    assert speed_record(shown)["by_requests"][0]["planned"]["k"] == 7


def test_without_acceptance_it_says_what_it_takes() -> None:
    rows = (Row(1, 1.38), Row(16, 2.04))
    lines = speed_lines(SpeedPlan(("model",), rows, "nobody published it"))
    assert lines[0] == "speed: not predicted: nobody published it"
    assert "1.38 at 1, 2.04 at 16" in lines[1]
    assert speed_record(SpeedPlan(unknown="no kernel timings"))["predicted"] is False
    assert speed_lines(SpeedPlan(unknown="no kernel timings")) == ["speed: not predicted: no kernel timings"]


def test_the_basis_claims_what_was_left_out() -> None:
    shown = plan_module._model_basis(_CASE)
    known = evidence()
    assert shown[1].startswith(f"tested by leaving out one of {known.publications} publications after the other: ")
    assert f"{known.held['dense']:.0%} of the values of dense verifiers lay in the range" in shown[1]
    assert "mixtures of experts" in plan_module._model_basis(_MOE)[1]


@pytest.mark.parametrize(("most", "said"), [(15, False), (16, True), (None, True)])
def test_where_the_prediction_ends_is_told_to_a_launch_that_goes_beyond(most: int | None, said: bool) -> None:
    assert math.floor(most_requests("dense")) == 15
    lines = plan_module._beyond(_CASE, most)
    assert bool(lines) is said
    assert all(line.startswith("above 15 requests at a time: not predicted") for line in lines)
