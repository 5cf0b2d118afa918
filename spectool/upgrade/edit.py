"""Change values in JSON text and leave everything else as its author wrote it: order, indentation, line ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spectool.formats.lookup import MISSING

Path = tuple[str | int, ...]
REMOVE: Final = MISSING
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Edit:
    """One change: `value` at `path`, or REMOVE. The object that holds the key must exist."""

    path: Path
    value: Any


@dataclass(slots=True)
class _Node:
    """Where a value stands in the text, and what is inside. `key_start` is the member's first character."""

    key_start: int
    start: int
    end: int = 0
    members: dict[str | int, _Node] = field(default_factory=dict)


def edit_json(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with the edits made.

    A new key goes where the object's keys are sorted to its place, else to the end, indented like its neighbours.

    Args:
        text: a valid JSON document whose root is an object.
        edits: changes with distinct paths.

    Raises:
        KeyError: an edit's parent does not exist, or is no object.

    """
    for edit in edits:
        text = _apply(text, edit)
    return text


def _apply(text: str, edit: Edit) -> str:
    parent = _scan(text)
    for part in edit.path[:-1]:
        parent = parent.members[part]
    if text[parent.start] not in "{[":
        raise KeyError(edit.path)
    name = edit.path[-1]
    node = parent.members.get(name)
    if edit.value is REMOVE:
        return text if node is None else _removed(text, parent, name)
    if node is not None:
        return text[: node.start] + _dump(edit.value, _indent_of(text, node.key_start)) + text[node.end :]
    if text[parent.start] != "{":
        raise KeyError(edit.path)
    return _inserted(text, parent, str(name), edit.value)


def _removed(text: str, parent: _Node, name: str | int) -> str:
    names = list(parent.members)
    place, node = names.index(name), parent.members[name]
    if place + 1 < len(names):  # up to the next member, its own leading space kept by ours
        return text[: node.key_start] + text[parent.members[names[place + 1]].key_start :]
    if place:
        return text[: parent.members[names[place - 1]].end] + text[node.end :]
    return text[: parent.start + 1] + text[parent.end - 1 :]


def _inserted(text: str, parent: _Node, name: str, value: Any) -> str:
    names = [str(key) for key in parent.members]
    if not names:
        return text[: parent.start + 1] + f"{json.dumps(name)}: {_dump(value, '')}" + text[parent.end - 1 :]
    after = [key for key in names if key < name] if names == sorted(names) else names
    first = parent.members[names[0]]
    gap = text[parent.start + 1 : first.key_start]
    member = f"{json.dumps(name, ensure_ascii=False)}: {_dump(value, _indent_of(text, first.key_start))}"
    if not after:
        return text[: first.key_start] + member + "," + (gap or " ") + text[first.key_start :]
    before = parent.members[after[-1]]
    return text[: before.end] + "," + (gap or " ") + member + text[before.end :]


def _indent_of(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line if not line.strip(" \t") else ""


def _dump(value: Any, indent: str) -> str:
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    step = "\t" if indent.startswith("\t") else 2
    return json.dumps(value, ensure_ascii=False, indent=step).replace("\n", "\n" + indent)


def _scan(text: str) -> _Node:
    root = _Node(0, _skip(text, 0))
    _value(text, root)
    return root


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _value(text: str, node: _Node) -> None:
    opening = text[node.start]
    if opening not in "{[":
        _, node.end = _DECODER.raw_decode(text, node.start)
        return
    position = _skip(text, node.start + 1)
    for number in _counting():
        if text[position] in "}]":
            node.end = position + 1
            return
        member = _Node(position, position)
        name: str | int = number
        if opening == "{":
            name, end = _DECODER.raw_decode(text, position)
            member.start = _skip(text, _skip(text, end) + 1)
        _value(text, member)
        node.members[name] = member
        position = _skip(text, member.end)
        if text[position] == ",":
            position = _skip(text, position + 1)


def _counting() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1
