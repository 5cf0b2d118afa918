"""Bars of acceptance by position."""

import pytest

from spectool.report.acceptance import bar_lines, next_steps
from spectool.serving.acceptance import Verdict
from spectool.speed.positions import Positions, of_length, of_tokens, published_positions
from spectool.speed.published import Tokens, given

SPAN = Positions((0.5, 0.25), (0.75, 0.25), "somebody")


def test_measured_expected_and_both_are_told_apart() -> None:
    first, second, third, legend = bar_lines([0.6, 0.1, 0.05], SPAN)
    assert first == "position  1 |" + "#" * 20 + "=" * 4 + "-" * 6 + " " * 10 + "|  60%  expected 50% to 75%"
    assert second == "position  2 |####      -" + " " * 29 + "|  10%  expected 25%"
    assert third == "position  3 |" + "#" * 2 + " " * 38 + "|   5%"  # nothing is expected of it
    assert legend == "# measured, - expected, = both; expected somebody"


def test_a_terminal_gets_blocks() -> None:
    assert bar_lines([1.0], blocks=True) == ["position  1 |" + "\u2588" * 40 + "| 100%"]


def test_without_rounds_there_is_nothing_to_draw() -> None:
    assert bar_lines([], SPAN) == []


def test_only_what_is_not_good_asks_for_something() -> None:
    assert [verdict for verdict in Verdict if not next_steps(verdict)] == [Verdict.GOOD]


def test_positions_of_a_length_add_up_to_it() -> None:
    found = of_tokens(Tokens(2.0, 3.5, 7, "here"), 7)
    assert 1 + sum(found.low) == pytest.approx(2.0)
    assert 1 + sum(found.high) == pytest.approx(3.5)
    # A shorter draft has the same first positions.
    assert of_tokens(Tokens(2.0, 3.5, 7, "here"), 3).high == found.high[:3]
    with pytest.raises(ValueError, match="above the measured"):
        of_tokens(given(2.0, 7, ""), 8)


def test_published_shares_win_over_an_even_spread() -> None:
    names = ["RedHatAI/gemma-4-31B-it-speculator.dflash"]
    found = published_positions(names, None, 8)
    assert found is not None
    assert (found.low[0], found.high[0]) == (0.657, 0.887)
    assert (found.low[7], found.high[7]) == (0.007, 0.215)
    assert published_positions(names, None, 9) is None
    assert published_positions(["nobody/unknown"], None, 3) is None


def test_data_sets_with_a_length_alone_count_as_even() -> None:
    found = published_positions(["deepseek-ai/dspark_qwen3_8b_block7"], "code", 7)
    assert found is not None
    assert found.low == pytest.approx(of_length(5.16, 7, 7))
    assert found.high == pytest.approx(of_length(5.52, 7, 7))


def test_one_data_set_is_widened_as_its_length_is() -> None:
    found = published_positions(["RedHatAI/Qwen3-8B-speculator.peagle"], "math", 7)
    assert found is not None
    assert "widened" in found.basis
    assert found.low[0] < 0.833 < found.high[0] + 0.05
    assert 1 + sum(found.high) == pytest.approx(3.82 * 1.3**0.5)
