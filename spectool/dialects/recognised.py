"""Layouts that are refused by name (`data/recognised.toml`)."""

from __future__ import annotations

import tomllib
from functools import cache

from spectool.dialects.predicates import matches
from spectool.dialects.view import View
from spectool.formats.recognised import Recognised, RecognisedFile
from spectool.resources import package_data


@cache
def recognised_layouts() -> tuple[Recognised, ...]:
    """Return all entries, in the order in which they are tried."""
    text = package_data("recognised.toml").read_text(encoding="utf-8")
    return RecognisedFile.model_validate(tomllib.loads(text)).layout


def recognise(view: View) -> Recognised | None:
    """Return the first entry a folder fits."""
    for item in recognised_layouts():
        if any(matches(one, view) for one in item.any) and not any(matches(one, view) for one in item.none):
            return item
    return None
