"""Predicates of dialect files: `arch:NAME`, `key:a.b`, `key:a.b=value`, `tensor:REGEX`, `file:NAME`."""

from __future__ import annotations

import re

from spectool.dialects.view import View
from spectool.formats.lookup import MISSING, lookup
from spectool.formats.pattern import readable


def matches(predicate: str, view: View) -> bool:
    """Whether one predicate holds for a folder."""
    kind, _, rest = predicate.partition(":")
    match kind:
        case "arch":
            names = view.config.get("architectures")
            return isinstance(names, list) and rest in names
        case "key":
            path, equals, wanted = rest.partition("=")
            value = lookup(view.config, path)
            if value is MISSING:
                return False
            return not equals or as_text(value) == wanted
        case "file":
            return rest in view.side_files
        case _:
            pattern = re.compile(rest)
            return any(pattern.search(name) for name in view.tensors if readable(name))


def as_text(value: object) -> str:
    """Spell a JSON scalar as a dialect file does (true, not True)."""
    return str(value).lower() if isinstance(value, bool) else str(value)
