"""Patterns of dialect files: those that ship are taken, those that may take for ever are not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectool.formats.pattern import MAX_LENGTH, MAX_NAME, check_pattern, readable


@pytest.mark.parametrize(
    "text",
    [
        r"layers\.\d+\..+|(fc|hidden_norm|norm)\.weight|markov_head\.markov_w[12]\.weight",
        r"layers\.\d+\..+|fc_norm\.\d+\..+|a+b+c+",  # three repetitions, in each alternative
        r"(a+)?b",  # an optional group is none that is repeated
        r"[)(+*?|]+x",  # signs in a set are characters
        r"\(+\)*\\1",  # and so are those with a backslash
        r"(?:a|b)(c|d)(e|f)(g|h)",
        "a{3}{",
        "x" * MAX_LENGTH,
    ],
)
def test_what_is_taken(text: str) -> None:
    check_pattern(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(a+)+$", "repetition of a group"),
        ("(a|a)*$", "repetition of a group"),
        ("(?:a?)*", "repetition of a group"),
        ("((ab)c){2,}", "repetition of a group"),
        (".*.*.*.*", "more than 3 repetitions"),
        ("a{1,9}b{1,9}c{1,9}d{,9}", "more than 3 repetitions"),
        ("a?a?a?a?a?aaaaa", "4 optional parts"),
        ("(a|b)" * 5, "4 groups of alternatives"),
        (r"(a)\1", "no reference"),
        ("(?=a)a", "only plain groups"),
        ("(?P<a>b)", "only plain groups"),
        ("(?i)a", "only plain groups"),
        ("(*", "nothing to repeat"),
        ("(", "missing"),
        ("x" * (MAX_LENGTH + 1), "501 characters"),
        ("(" * 200 + ")" * 199, "missing"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        check_pattern(text)


def test_a_new_name_has_the_groups_it_names() -> None:
    check_pattern(r"a\.(.+)", r"b.\1")
    with pytest.raises(ValueError, match="group"):
        check_pattern(r"a\.(.+)", r"b.\2")


def test_long_names_match_nothing() -> None:
    assert readable("x" * MAX_NAME)
    assert not readable("x" * (MAX_NAME + 1))


@given(st.text("ab()[]|*+?{}0123,\\:=^$.", max_size=40))
def test_whatever_is_written_is_taken_or_refused(text: str) -> None:
    try:
        check_pattern(text)
    except ValueError:
        return
    assert re.compile(text)
