"""JSON values of `vllm serve` flags, key by key, as vLLM's configuration classes take them.

Those are Pydantic dataclasses in the lax mode that forbid other keys: "7" and 7.0 go for 7, "true" and 1 for true
(table of conversions in Pydantic's documentation). A key whose annotation says more than plain types is let pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from spectool.planning.lax import as_flag, as_number, as_whole
from spectool.planning.parsing_values import Classes, few, outside, shortened

_TITLES = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text", "None": "null"}
_TITLES |= {"list": "a list", "dict": "an object"}


def object_faults(where: str, document: Mapping[str, Any], name: str, classes: Classes) -> list[str]:
    """Say what vLLM refuses of an object.

    Args:
        where: the flag, and the keys down to the object, for messages.
        document: the object.
        name: of its class.
        classes: what the classes of a release hold.

    """
    known, found = classes.get(name), []
    if known is None:
        return []
    for key, value in document.items():
        if key in known:
            found += held_faults(f"{where}: {key}", value, known[key], classes)
            continue
        near = next(iter(get_close_matches(key, known, 1)), None)
        found.append(f"{where}: it has no key {key!r}" + (f"; {near} is one" if near else ""))
    return found


def held_faults(where: str, value: Any, shape: Mapping[str, Any], classes: Classes) -> list[str]:
    """Say what vLLM refuses of the value of a key."""
    kinds, choices = shape["is"], shape.get("choices", ())
    if "any" in kinds:
        return _unnamed(where, value, shape)
    if value is None:
        return [] if "None" in kinds else [_wanted(where, value, shape)]
    if value in choices:
        return []
    if isinstance(value, dict) and "dict" in kinds:
        return object_faults(where, value, shape["of"], classes) if "of" in shape else []
    if isinstance(value, list) and "list" in kinds:
        return []
    if isinstance(value, str) and "str" in kinds:
        return []
    for kind, read in (("bool", as_flag), ("int", as_whole), ("float", as_number)):
        number = read(value)
        if kind in kinds and isinstance(number, {"bool": bool, "int": int, "float": int | float}[kind]):
            fault = outside(where, str(value), number, shape)
            return [fault] if fault is not None else []
    return [_wanted(where, value, shape)]


def _unnamed(where: str, value: Any, shape: Mapping[str, Any]) -> list[str]:
    """Say of the name of an enumeration's member that there is none; vLLM takes names in any case, and numbers."""
    names = shape.get("names")
    if names is None or value is None:
        return []
    text = str(value).upper()
    if text in names or (not isinstance(value, str) and not names[0].isdecimal()) or text == "AUTO":
        return []
    if isinstance(value, str) and names[0].isdecimal() and not text.isdecimal():
        return []  # by the name of a level, which is not listed
    return [f"{where} is {shortened(repr(value))}, and one of {few(names)}"]


def _wanted(where: str, value: Any, shape: Mapping[str, Any]) -> str:
    choices = shape.get("choices", ())
    if choices and value is not None:
        return f"{where} is {shortened(repr(value))}, and one of {few(choices)}"
    wanted = " or ".join(_TITLES[kind] for kind in shape["is"]) or few(choices)
    return f"{where} is {shortened(repr(value))}: {wanted} is needed"
