"""Text from files made harmless for whatever shows it."""

from __future__ import annotations

import sys

from spectool.formats.control import CONTROL


def printable(text: str) -> str:
    """Spell control characters out: names and values from files must not drive the reader's terminal."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_json(text: str) -> str:
    """Do the same to a JSON document, whose meaning stays: such characters stand inside its strings only."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def tell(line: str) -> None:
    """Print one line of talk to standard error, whatever is quoted in it made harmless."""
    sys.stderr.write(printable(line) + "\n")
