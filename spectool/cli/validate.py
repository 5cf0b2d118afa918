"""`spectool validate`: trained as, run as, and the line that differs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from spectool.cli.options import Drafter, Engine, Format, From, OutputFormat, Quiet, Settings, Verifier, parse_settings


class FailOn(StrEnum):
    """From which severity on the exit code is 1."""

    error = "error"
    warning = "warning"
    note = "note"
    never = "never"


def command(
    drafter: Drafter,
    verifier: Verifier = None,
    settings: Settings = None,
    from_: From = None,
    engine: Engine = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Exit with 1 from this severity on.")] = FailOn.error,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Check a drafter and its verifier before an engine starts."""
    from spectool import api  # noqa: PLC0415
    from spectool.cli.output import print_json, stdout  # noqa: PLC0415
    from spectool.report.jsonable import report_json  # noqa: PLC0415
    from spectool.report.text import print_report  # noqa: PLC0415

    report = api.validate(drafter, verifier=verifier, settings=parse_settings(settings), dialect=from_, engine=engine)
    if format is Format.json:
        print_json(report_json(report))
    else:
        print_report(report, stdout(), quiet=quiet)
    ranks = ["note", "warning", "error"]
    if fail_on is not FailOn.never:
        threshold = ranks.index(fail_on.value)
        if any(ranks.index(finding.severity) >= threshold for finding in report.findings):
            raise typer.Exit(1)
