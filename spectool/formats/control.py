"""Characters that act instead of being seen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# Control characters, the marks that turn the direction of writing, and halves of surrogate pairs (a file name that is
# no UTF-8 has them), which no stream can encode.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def acting(content: Any, where: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted places of a document whose key or text holds such a character; tab and line end are none."""
    match content:
        case str():
            if CONTROL.search(content):
                yield ".".join(where)
        case Mapping():
            for key, item in content.items():
                name = str(key)
                if CONTROL.search(name):
                    yield ".".join((*where, name))
                yield from acting(item, (*where, name))
        case list():
            for index, item in enumerate(content):
                yield from acting(item, (*where, str(index)))
