"""The command line over the configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spectool.configuration.find import load_configuration
from spectool.configuration.selection import EVERYTHING, Selection, make_selection, parse_ignore


@dataclass(frozen=True, slots=True)
class Wishes:
    """What `validate` is to do. `file` is the configuration that had a say, if any."""

    fail_on: str
    engine: str | None
    selection: Selection
    file: Path | None


def wishes(
    file: Path | None,
    start: Path,
    *,
    fail_on: str | None = None,
    engine: str | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Wishes:
    """Combine options with the configuration; options win, reasons to ignore are added up.

    Args:
        file: the configuration file to take; None to search for one from `start` upward.
        start: where the search begins.
        fail_on: the severity from which on the exit code is 1.
        engine: as `--engine`.
        select: codes or beginnings of them, several in one text parted by commas.
        ignore: texts `CODE=reason`.

    Raises:
        SourceError: the configuration cannot be read.
        UsageError: the configuration or an option says something spectool does not understand.

    """
    found = load_configuration(file, start)
    chosen = [code for text in select for code in text.split(",")]
    reasons = parse_ignore(ignore)
    if found is None:
        selection = make_selection(chosen, reasons) if chosen or reasons else EVERYTHING
        return Wishes(fail_on or "error", engine, selection, None)
    path, configuration = found
    said = "--select" if chosen else f"{path}: select"
    merged = {**configuration.ignore, **{code.strip().upper(): reason for code, reason in reasons.items()}}
    selection = make_selection(chosen or configuration.select or (), merged, said=said)
    return Wishes(fail_on or configuration.fail_on or "error", engine or configuration.engine, selection, path)
