"""Where everything is printed: data to standard output, talk and progress to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

# `highlight` would colour numbers in messages; a pipe gets no colour and is never cut to a width.
PIPED_WIDTH = 200


def stdout() -> Console:
    """Return the console for data."""
    return Console(
        highlight=False, soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else PIPED_WIDTH
    )


def stderr() -> Console:
    """Return the console for talk."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print a JSON document to standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def copying(label: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar while bytes move, where standard error is a terminal."""
    console = stderr()
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=None)

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield update
