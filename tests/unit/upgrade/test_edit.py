"""Text edits: the value is right, and every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectool.upgrade.edit import REMOVE, Edit, edit_json

TEXT = """{
    "a": 1,  "list": [1, {"x": 2}],
    "z": {"inner": true}
}
"""


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (Edit(("a",), 7), TEXT.replace('"a": 1', '"a": 7')),
        (Edit(("list", 1, "x"), "é"), TEXT.replace('"x": 2', '"x": "é"')),
        (Edit(("z", "inner"), REMOVE), TEXT.replace('{"inner": true}', "{}")),
        (Edit(("z",), REMOVE), '{\n    "a": 1,  "list": [1, {"x": 2}]\n}\n'),
        (Edit(("a",), REMOVE), '{\n    "list": [1, {"x": 2}],\n    "z": {"inner": true}\n}\n'),
        (Edit(("none",), REMOVE), TEXT),
        (Edit(("m",), None), TEXT.replace('{"x": 2}],', '{"x": 2}],\n    "m": null,')),
        (Edit(("A",), 0), '{\n    "A": 0,\n    "a": 1,  "list": [1, {"x": 2}],\n    "z": {"inner": true}\n}\n'),
        (Edit(("zz",), [1]), TEXT.replace("true}\n", 'true},\n    "zz": [\n      1\n    ]\n')),
        (Edit(("z", "a"), False), TEXT.replace('{"inner"', '{"a": false, "inner"')),
    ],
)
def test_one_edit(edit: Edit, expected: str) -> None:
    assert edit_json(TEXT, [edit]) == expected


def test_unsorted_objects_take_new_keys_at_the_end() -> None:
    assert edit_json('{"b": 1, "a": 2}', [Edit(("aa",), 3)]) == '{"b": 1, "a": 2, "aa": 3}'
    assert edit_json("{}", [Edit(("a",), 1)]) == '{"a": 1}'
    assert edit_json('{\r\n\t"b": 1\r\n}', [Edit(("c",), 2)]) == '{\r\n\t"b": 1,\r\n\t"c": 2\r\n}'


def test_strings_that_look_like_structure() -> None:
    text = '{"a\\"}": "]},{", "b": {"c": "\\\\"}}'
    assert edit_json(text, [Edit(("b", "c"), 1)]) == '{"a\\"}": "]},{", "b": {"c": 1}}'


def test_a_parent_that_is_not_there() -> None:
    for path in (("nope", "a"), ("a", "b"), ("list", 5)):
        with pytest.raises(KeyError):
            edit_json(TEXT, [Edit(path, 1)])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=3), values, max_size=4),
    st.text(max_size=3),
    values,
    st.sampled_from([None, 1, "\t"]),
)
def test_an_edit_is_what_assignment_would_do(document: dict[str, Any], key: str, value: Any, indent: Any) -> None:
    text = json.dumps(document, indent=indent)
    assert json.loads(edit_json(text, [Edit((key,), value)])) == {**document, key: value}
    removed = {name: item for name, item in document.items() if name != key}
    assert json.loads(edit_json(text, [Edit((key,), REMOVE)])) == removed
