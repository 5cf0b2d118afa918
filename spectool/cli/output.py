"""Where everything is printed: data to standard output, talk and progress to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from spectool.report.plain import printable, printable_json

# A pipe gets no colour and is never cut to a terminal's width: what stands in one row stays in one line.
PIPED_WIDTH = 10_000


class _Console(Console):
    """A console on which text stays text, whoever wrote it, and no line ends in blanks."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        blanks: list[Segment] = []
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
                continue
            text = printable(segment.text)
            body = text.rstrip(" ")
            if body and not body.startswith("\n"):
                yield from blanks
            if body:
                yield Segment(body, segment.style)
                blanks = []
            if len(text) > len(body):
                blanks.append(Segment(text[len(body) :], segment.style))
        yield from blanks


def stdout() -> Console:
    """Return the console for data. `highlight` would colour numbers in messages."""
    if sys.stdout.isatty():
        return _Console(highlight=False)
    # With a height too: for TERM=dumb rich takes 80 columns, and under FORCE_COLOR it takes a pipe for a terminal.
    return _Console(highlight=False, soft_wrap=True, width=PIPED_WIDTH, height=25)


def draws_blocks() -> bool:
    """Say whether bars may be drawn with block characters: on a terminal that can show them."""
    return sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def stderr() -> Console:
    """Return the console for talk."""
    return _Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print a JSON document to standard output."""
    sys.stdout.write(printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n")


def print_text(text: str) -> None:
    """Print a finished document, in which only line breaks are left to act."""
    sys.stdout.write(printable(text))


@contextmanager
def copying(label: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar while bytes move, where standard error is a terminal."""
    console = stderr()
    if quiet or not sys.stderr.isatty():  # FORCE_COLOR asks for colour in a pipe, not for a bar
        yield None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=None)

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield update
