"""Strict JSON: what two readers could understand differently is an error.

Python's `json` takes duplicate keys, `NaN`, numbers out of range and lone surrogates without a word. Other readers of
the same file (serde in safetensors, tokenizer libraries) refuse them or keep another value, so none is let in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from spectool.errors import SourceError

_ALL_NINES = dict.fromkeys(range(ord("0"), ord("9")), "9")
MAX_DEPTH = 100
"""Levels of lists and objects; a model config has about six, serde stops at 128."""


def parse_json(
    text: str, source: str, *, parse_int: Callable[[str], int] = int, constants: bool = False, depth: bool = True
) -> Any:
    """Parse one JSON document.

    Args:
        text: the document.
        source: the file's name, as messages show it.
        parse_int: turns the digits of an integer into a number; its `ValueError` becomes the error's text. It must
            agree with `int` on numbers of up to 18 digits other than -0.
        constants: take `NaN` and `Infinity` as Python does. For files that are read and never written again: published
            verifiers have them (`time_step_limit` of the Nemotron-H family), and every engine reads them so.
        depth: whether to count levels; without, `check_depth` is for the caller to call.

    Raises:
        SourceError: no JSON (with line and column), a duplicate key, a number outside the 64-bit float range, `NaN` or
            `Infinity`, a text that is no valid Unicode, or more than `MAX_DEPTH` levels.

    """

    def integer(digits: str) -> int:
        try:
            value = parse_int(digits)
            if len(digits) > 308:
                float(value)
        except (ValueError, OverflowError) as error:
            shown = digits if len(digits) <= 40 else f"{digits[:40]}... ({len(digits)} digits)"
            raise SourceError(f"{source}: the number {shown} cannot be used: {error}") from None
        return value

    def real(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            raise SourceError(f"{source}: the number {digits[:40]} is out of range")
        return value

    def constant(name: str) -> float:
        if constants:
            return float(name)
        raise SourceError(f"{source}: {name} is not JSON", hint=f"Write null or a number in place of {name}.")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            seen: set[str] = set()
            twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add() is false, which is meant
            raise SourceError(
                f"{source}: the key {twice!r} occurs twice in one object",
                hint="Readers disagree on which of the two counts. Remove one.",
            )
        return result

    # Headers hold tens of thousands of numbers: where none can be odd, the parser's own are the same and quick.
    odd = "-0" in text or "9" * 19 in text.translate(_ALL_NINES)  # zero below zero, or perhaps more than 64 bits
    whole = integer if odd else None
    try:
        value = json.loads(text, parse_int=whole, parse_float=real, parse_constant=constant, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise SourceError(
            f"{source}: not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise SourceError(f"{source}: more than {MAX_DEPTH} levels of lists and objects") from None
    if depth:
        check_depth(value, source)
    if "\\u" in text or not text.isascii():  # else no text in it can hold half of a pair
        _check_texts(value, source)
    return value


def check_depth(document: Any, source: str) -> None:
    """Refuse a document of more than `MAX_DEPTH` levels of lists and objects.

    Raises:
        SourceError: it has more.

    """
    level, depth = [document] if isinstance(document, list | dict) else [], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise SourceError(f"{source}: more than {MAX_DEPTH} levels of lists and objects")
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, list | dict)
        ]


def _check_texts(document: Any, source: str) -> None:
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, str):
            _check_text(value, source)
        elif isinstance(value, list | dict):
            left.extend(value)
            if isinstance(value, dict):
                left.extend(value.values())


def _check_text(value: str, source: str) -> None:
    if value.isascii():
        return
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise SourceError(f"{source}: the text {value[:80]!r} has half of a surrogate pair and is no Unicode") from None
