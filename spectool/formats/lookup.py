"""Dotted paths into parsed JSON, and numbers that may not be what they seem."""

from __future__ import annotations

from typing import Any, Final, TypeGuard


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


def lookup(document: object, path: str) -> Any:
    """Return the value at a dotted path (`a.b.0.c`), or MISSING. A JSON null counts as missing: producers use both."""
    value: Any = document
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return MISSING if value is None else value


def is_int(value: object) -> TypeGuard[int]:
    """Whether a JSON value is a whole number (true and false are not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a JSON value is a number (true and false are not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
