"""Patterns of dialect files: regular expressions of a form whose cost has a bound; a stranger may have written them.

Python's matcher tries every way of dividing a name among the parts of a pattern. The tries double with every character
where what is repeated can itself match in several ways, and else grow with a power of the name's length, which the
limits below keep small.
"""

from __future__ import annotations

import re
import warnings

MAX_LENGTH = 500
MAX_REPEATS = 3
"""Repetitions of no fixed number, in one alternative; the dialects that ship have no more."""
MAX_CHOICES = 4
"""Optional parts, and groups of alternatives, each."""
MAX_NAME = 256
"""Longer names match nothing; those of real tensors have half of it."""

_TOKEN = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?P<kind>\?:?)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<repeat>[*+]\??|\{(?P<low>\d*)(?P<comma>,?)(?P<high>\d*)\}\??)|(?P<option>\?)|(?P<other>.)",
    re.DOTALL,
)


def check_pattern(text: str, to: str = "") -> None:
    """Check a pattern, and what a match is renamed to.

    Raises:
        ValueError: it is no regular expression, `to` names a group it does not have, or its cost has no bound.

    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"pattern of {len(text)} characters: at most {MAX_LENGTH}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a set that another Python will read otherwise
            re.compile(text).sub(to, "")
    except (re.error, RecursionError, OverflowError, IndexError, Warning) as error:
        raise ValueError(f"pattern {text!r}: {error}") from None
    if fault := _fault(text):
        raise ValueError(f"pattern {text!r}: {fault}")


def _fault(text: str) -> str | None:
    repeats = options = choices = 0
    # Of every open group: whether it has alternatives. `closed`: whether a group has just ended.
    groups, closed = [False], False
    for token in _TOKEN.finditer(text):
        kind, before, closed = token.lastgroup, closed, token.lastgroup == "close"
        match kind:
            case "escape" if token["escape"][1] in "123456789":
                return "no reference to what another group matched"
            case "open":
                if token["kind"] == "?":
                    return "only plain groups, (...) and (?:...)"
                groups.append(False)
            case "close":
                choices += groups.pop()
            case "bar" if len(groups) == 1:
                repeats, options, choices = 0, 0, 0
            case "bar":
                groups[-1] = True
            case "repeat":
                if before:
                    return "no repetition of a group, whose cost has no bound: repeat single characters or sets"
                repeats += token["low"] is None or bool(token["comma"] and token["low"] != token["high"])
            case "option":
                options += 1
        if repeats > MAX_REPEATS or options > MAX_CHOICES or choices > MAX_CHOICES:
            return (
                f"more than {MAX_REPEATS} repetitions, {MAX_CHOICES} optional parts or {MAX_CHOICES} groups of "
                "alternatives in one alternative"
            )
    return None


def readable(name: str) -> bool:
    """Whether a name is short enough to be matched."""
    return len(name) <= MAX_NAME
