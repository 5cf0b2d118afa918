from __future__ import annotations

import math

import pytest

from spectool.serving.client import Completion
from spectool.serving.compare import Difference, differences


def completion(*tokens: int, gap: float | None = 1.0) -> Completion:
    return Completion(tokens, (gap,) * len(tokens))


def test_equal_outputs_have_no_difference() -> None:
    assert differences([completion(1, 2), completion()], [completion(1, 2, gap=9.0), completion()]) == ()


def test_the_first_differing_token_with_the_gap_of_the_run_without_the_drafter() -> None:
    plain = Completion((1, 2, 3, 4), (9.0, 8.0, 0.25, 7.0))
    found = differences([completion(5), plain], [completion(5), completion(1, 2, 7, 8, gap=3.0)])
    assert found == (Difference(prompt=1, index=2, without=3, with_drafter=7, gap=0.25),)
    assert found[0].is_near_tie


def test_an_output_that_ends_early_is_no_tie() -> None:
    (shorter,) = differences([completion(1, 2, gap=0.1)], [completion(1)])
    assert shorter == Difference(0, 1, 2, None, None)
    (longer,) = differences([completion(1)], [completion(1, 2)])
    assert longer == Difference(0, 1, None, 2, None)
    assert not shorter.is_near_tie
    assert not longer.is_near_tie


@pytest.mark.parametrize(
    ("gap", "near"),
    [(0.0, True), (0.5, True), (0.5000001, False), (None, False), (math.nan, False), (math.inf, False)],
)
def test_half_a_nat_is_the_limit(gap: float | None, near: bool) -> None:
    assert Difference(0, 0, 1, 2, gap).is_near_tie is near
