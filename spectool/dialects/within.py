"""A drafter that lies inside something bigger: its tensors under a prefix, its configuration under a key.

Headers of the whole checkpoint are read, and of the data the drafter's own ranges alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectool.checkpoint.folder import Checkpoint
from spectool.dialects.view import View
from spectool.errors import SourceError
from spectool.formats.lookup import lookup

PREFIX, UNDER = "tensors_under", "config_under"
# Tensors that every drafter of one of the methods has, under one of its names.
_OF_DRAFTERS = re.compile(r"(.*\.)(?:fc\.weight|mask_hidden|context_proj\.weight|encoder\.fc\.weight)")


def narrowed(checkpoint: Checkpoint, view: View, answers: Mapping[str, Any]) -> tuple[Checkpoint, View]:
    """Return folder and view as if the drafter stood alone, by `tensors_under` and `config_under`.

    Raises:
        SourceError: no tensor has the prefix, or the key holds no object.

    """
    prefix, under = answers.get(PREFIX, ""), answers.get(UNDER, "")
    if prefix:
        if not prefix.endswith(".") and any(name.startswith(f"{prefix}.") for name in checkpoint.tensors):
            prefix += "."  # as people name a module
        kept = {name: item for name, item in checkpoint.tensors.items() if name.startswith(prefix) and name != prefix}
        if not kept:
            found = sorted(prefixes(view))
            hint = f"Drafters seem to lie under {', '.join(map(repr, found))}." if found else None
            raise SourceError(f"{view.name}: no tensor's name begins with {prefix!r}", hint=hint)
        short = {name.removeprefix(prefix): item for name, item in kept.items()}
        tensors = {name: item._replace(name=name) for name, item in short.items()}
        checkpoint = replace(checkpoint, tensors=tensors, total_bytes=sum(item.nbytes for item in tensors.values()))
        view = replace(view, tensors=tensors, read=checkpoint.read, peek=checkpoint.peek)
    if under:
        inner = lookup(view.config, under)
        if not isinstance(inner, dict):
            raise SourceError(f"{view.name}: config.json has no object under {under}")
        view = replace(view, config=inner)
    return checkpoint, view


def prefixes(view: View) -> set[str]:
    """Return the prefixes under which tensors look like a drafter's."""
    return {match[1] for name in view.tensors if (match := _OF_DRAFTERS.fullmatch(name))}
