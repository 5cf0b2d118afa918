"""Show what a publication would send."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from spectool.hub.publish import Publication


def print_publication(found: Publication, console: Console) -> None:
    """Print files, sizes, card, licence and visibility."""
    visibility = "private" if found.private else "public"
    console.print(f"would be sent to {found.repo} ({visibility} if it is made now), in one commit:", markup=False)
    for name, size in found.files:
        note = "made while writing" if size is None else f"{size} bytes"
        what = ", the model card" if name == "README.md" else ", the licence" if name in found.licences else ""
        console.print(f"  {name}  {note}{what}", markup=False)


def publication_json(found: Publication) -> dict[str, Any]:
    """Return it as a record."""
    return {
        "repository": found.repo,
        "private": found.private,
        "files": [{"name": name, "nbytes": size} for name, size in found.files],
        "card": found.card,
        "licences": list(found.licences),
    }
