"""Shapes that several rules share."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.rules.context import Context
from spectool.rules.registry import Hit


def differs(context: Context, field: str, message: str, fix: str | None = None) -> Iterator[Hit]:
    """Yield a hit when the engine's reading differs in a field. `{engine}` in the message is the release."""
    row = context.differing.get(field)
    if row is not None:
        text = message.format(engine=context.facts.title)
        yield Hit(f"{text}: trained as {row.trained}, {context.facts.title} runs {row.run}", fix, row.trained, row.run)


def engine_refuses(context: Context, code: str) -> Iterator[Hit]:
    """Yield a hit per thing the engine trips over under this code."""
    for message in context.refused(code):
        yield Hit(f"{context.facts.title} refuses: {message}")
