"""YAML as far as JSON goes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spectool.errors import SourceError
from spectool.formats.yaml_text import parse_yaml

TEXT = st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_json_holds_comes_back(value: Any) -> None:
    assert parse_yaml(yaml.safe_dump(value), "f")[0] == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2026-11-29", {"a": "2026-11-29"}),  # a date is text
        ("a: no\nb: 'no'", {"a": False, "b": "no"}),
        ("a: 0x10\nb: 1_000", {"a": 16, "b": 1000}),
        ("", None),
        ("30: x", {"30": "x"}),
        (json.dumps({"a": [1, {"b": None}]}), {"a": [1, {"b": None}]}),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    assert parse_yaml(text, "f")[0] == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x", "line 1: anchors and aliases"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' stands twice"),
        ("a: .nan", "line 1: '.nan' is neither"),
        ("a: 10:30", "line 1: '10:30' is neither"),
        ("a: !!python/object:os.system x", "line 1:"),
        ("a: !!binary aGk=", "line 1: 'aGk=' is neither"),
        ("? [1]\n: x", "line 1: a key must be text"),
        ("a: [", "line 1:"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("[" * 5000, ""),
        ("a:\n" * 3 + "\tb", ""),
        ("x" * (2 << 20), "more than 1048576 characters"),
        ("a: \x00", ""),
    ],
)
def test_what_json_cannot_hold_is_refused(text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_yaml(text, "f")
    assert message in caught.value.message


def test_lines() -> None:
    _, lines = parse_yaml("# c\na: 1\nb:\n  - x\n  - c: 2\n", "f")
    assert {path: lines[path] for path in [("a",), ("b",), ("b", 1), ("b", 1, "c")]} == {
        ("a",): 2,
        ("b",): 3,
        ("b", 1): 5,
        ("b", 1, "c"): 5,
    }
