"""What can go wrong, as a tree. The command line turns each into text and an exit code in one place.

    SpectoolError               message, hint: what went wrong and what to do next
    ├── CannotRunError          exit 2: spectool could not do what was asked
    │   ├── UsageError          the request itself does not make sense
    │   ├── SourceError         a file, folder or answer is missing, unreadable or malformed
    │   ├── QuestionError       the source does not say something; the user must (`--set`)
    │   ├── OutputError         the output exists already, or could not be written
    │   └── EngineMissingError  no engine was found, or it did not answer
    └── RefusedError            exit 1: everything was readable, and the answer is no

Findings of `validate` are records (`spectool.rules`), not exceptions.
"""

from __future__ import annotations


class SpectoolError(Exception):
    """Base of all errors meant for the user.

    Args:
        message: what went wrong, naming the file or key as it stands in the file.
        hint: what to do next, as a sentence or a command.
        code: the rule's code, where a rule explains the error further (`spectool rule CODE`).

    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class CannotRunError(SpectoolError):
    """Something outside the drafter's content stopped the work."""


class UsageError(CannotRunError):
    """The request itself does not make sense."""


class SourceError(CannotRunError):
    """A file, folder or answer is missing, unreadable or malformed."""


class OutputError(CannotRunError):
    """The output exists already, or could not be written."""


class EngineMissingError(CannotRunError):
    """No engine was found, or it did not answer."""


class QuestionError(CannotRunError):
    """The source does not say something that changes the result; the user must answer with `--set`."""


class RefusedError(SpectoolError):
    """Everything was readable, and the answer is no."""

    exit_code = 1
