"""`spectool env`: what a bug report needs to say."""

from __future__ import annotations

import sys

from spectool.cli.options import Format, OutputFormat
from spectool.cli.serve import EnginePython


def command(
    engine_python: EnginePython = None,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
) -> None:
    """Say which versions, engine, GPUs and settings are here, for a bug report. No secrets, no home folders."""
    from spectool.bug_report import as_text, environment
    from spectool.cli.output import print_json
    from spectool.report.plain import printable

    found = environment(engine_python)
    if format is Format.json:
        print_json(found)
    else:
        sys.stdout.write(printable(as_text(found)))
