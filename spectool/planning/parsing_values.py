"""Values of `vllm serve` flags as vLLM reads them: numbers with suffixes, choices, bounds, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_SHOWN = 60
_FEW = 12
# Longer numbers are none that vLLM would take, and Python refuses to read those of thousands of digits.
_DIGITS = 40


def whole(text: str) -> int | None:
    """Read a whole number as Python's `int` does (" 7", "+7", "1_000"); None where it would refuse."""
    try:
        return int(text) if len(text) <= _DIGITS else None
    except ValueError:
        return None


def human(text: str) -> int | None:
    """Read a number such as 8192, 8k (8,000), 8K (8,192) or 25.6k; None where vLLM refuses it (1.5K)."""
    match = _HUMAN.fullmatch(text.strip()) if len(text) <= _DIGITS else None
    if match is None:
        return whole(text)
    number, suffix = match.groups()
    if suffix.isupper():
        return None if "." in number else int(number) * _SUFFIXES[suffix]
    return int(float(number) * _SUFFIXES[suffix])


def length(text: str) -> int | None:
    """Read a length; -1 stands for `auto`, which leaves it to vLLM."""
    return -1 if text.strip().lower() == "auto" else human(text)


def decimal(text: str) -> float | None:
    """Read a decimal number as Python's `float` does."""
    try:
        return float(text)
    except ValueError:
        return None


_READERS = {"int": whole, "human": human, "length": length, "float": decimal}
_WANTED = {"int": "a whole number", "human": "a whole number, such as 8192 or 8k", "float": "a number"}
_WANTED["length"] = "a whole number, such as 8192 or 8k, or auto"


Classes = Mapping[str, Mapping[str, Mapping[str, Any]]]


def value_faults(flag: str, text: str, shape: Mapping[str, Any], classes: Classes) -> list[str]:
    """Say why vLLM refuses a flag's value; empty where it takes it, as far as the flag's shape tells.

    Args:
        flag: for the message.
        text: the value.
        shape: of the flag (`spectool.engine.options.options`).
        classes: what JSON flags hold.

    """
    if shape.get("empty") and text in ("", "None"):
        return []
    if shape["takes"] not in ("json", "object"):
        fault = _plain_fault(flag, text, shape)
        return [fault] if fault is not None else []
    shown = shortened(text)
    try:
        document = json.loads(_expanded(text))
    except (ValueError, RecursionError):
        return [f"{flag} {shown!r}: JSON is needed"]
    if shape["takes"] == "object" and not isinstance(document, dict):
        return [f"{flag} {shown!r}: a JSON object is needed"]
    if isinstance(document, dict) and "of" in shape:
        from spectool.planning.json_values import object_faults  # noqa: PLC0415 - it imports this module

        return object_faults(flag, document, shape["of"], classes)
    return []


def _plain_fault(flag: str, text: str, shape: Mapping[str, Any]) -> str | None:
    shown = shortened(text)
    choices = shape.get("choices")
    takes = shape["takes"]
    if takes in _READERS:
        number = _READERS[takes](text)
        if number is None:
            return f"{flag} {shown!r}: {_WANTED[takes]} is needed"
        if choices and number not in choices:
            return f"{flag} {shown}: it is one of {', '.join(map(str, choices))}"
        return outside(flag, shown, number, shape)
    if choices:
        if text in choices or (shape.get("loose") and text.lower().replace("-", "_") in choices):
            return None
        return f"{flag} {shown!r}: it is one of {few(choices)}"
    return None


def shortened(text: str) -> str:
    """Cut a value for a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def few(choices: Sequence[Any]) -> str:
    """Return choices for a message, the first dozen of many."""
    return ", ".join(map(str, choices[:_FEW])) + (", ..." if len(choices) > _FEW else "")


def outside(flag: str, shown: str, number: float, shape: Mapping[str, Any]) -> str | None:
    """Say which bound a number breaks; None where it breaks none."""
    if "least" in shape and not number >= shape["least"]:
        return f"{flag} {shown}: it is at least {shape['least']}"
    if "above" in shape and not number > shape["above"]:
        return f"{flag} {shown}: it is above {shape['above']}"
    if "most" in shape and not number <= shape["most"]:
        return f"{flag} {shown}: it is at most {shape['most']}"
    if "below" in shape and not number < shape["below"]:
        return f"{flag} {shown}: it is below {shape['below']}"
    return None


def _expanded(text: str) -> str:
    """Write out numbers such as 8k between the texts of a JSON value (arg_utils.py, 0.32 and 0.33)."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    number = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
    parts[::2] = [number.sub(lambda match: str(human(match[0]) or match[0]), part) for part in parts[::2]]
    return "".join(parts)
