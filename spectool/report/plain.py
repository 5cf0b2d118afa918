"""Text from files made harmless for whatever shows it."""

from __future__ import annotations

import re
import sys

# Control characters, the marks that turn the direction of writing, and halves of surrogate pairs (a file name that is
# no UTF-8 has them), which no stream can encode.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Spell control characters out: names and values from files must not drive the reader's terminal."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_json(text: str) -> str:
    """Do the same to a JSON document, whose meaning stays: such characters stand inside its strings only."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def tell(line: str) -> None:
    """Print one line of talk to standard error, whatever is quoted in it made harmless."""
    sys.stderr.write(printable(line) + "\n")
