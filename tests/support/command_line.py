"""Run the command line in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass

from spectool.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was printed where."""

    code: int
    out: str
    err: str


def spectool(*arguments: str) -> Outcome:
    """Run `spectool` with these arguments, standard output and error not being terminals."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["spectool", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv = before
    return Outcome(code, out.getvalue(), err.getvalue())
