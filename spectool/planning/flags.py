"""Read a user's own `vllm serve` flags as far as spectool must understand them.

vLLM's parser takes underscores for dashes, `--flag value` and `--flag=value`, `--flag.key value` for a key inside a
JSON flag, any unambiguous beginning of a flag, and a YAML file of flags that the command line overrides
(vllm/utils/argparse_utils.py, 0.32 and 0.33).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Given:
    """One flag as the user gave it.

    Attributes:
        name: in dashes, without a value: `--served-model-name`.
        value: the first value, or None.
        start: index of the flag in the arguments.
        stop: index after the flag and its first value.

    """

    name: str
    value: str | None
    start: int
    stop: int


def normal(flag: str) -> str:
    """Return a flag's name the way vLLM reads it: dashes, up to the first dot."""
    head, dot, rest = flag.partition(".")
    return head.replace("_", "-") + dot + rest


def given(arguments: Sequence[str]) -> Iterator[Given]:
    """Yield the flags of a command line, each with the word that follows it if that is no flag."""
    for index, word in enumerate(arguments):
        if not word.startswith("-") or len(word) == 1 or _is_number(word):
            continue
        name, equals, value = word.partition("=")
        if equals:
            yield Given(normal(name), value, index, index + 1)
        elif index + 1 < len(arguments) and _is_value(arguments[index + 1]):
            yield Given(normal(name), arguments[index + 1], index, index + 2)
        else:
            yield Given(normal(name), None, index, index + 1)


def value_of(arguments: Sequence[str], *names: str) -> str | None:
    """Return the last value given for a flag under any of its names, as argparse would."""
    values = [flag.value for flag in given(arguments) if flag.name in names]
    return values[-1] if values else None


def has(arguments: Sequence[str], *names: str) -> bool:
    """Say whether a flag was given under any of its names."""
    return any(flag.name in names for flag in given(arguments))


def _is_value(word: str) -> bool:
    return not word.startswith("-") or len(word) == 1 or _is_number(word)


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-\d+(\.\d*)?|-\.\d+", word) is not None
