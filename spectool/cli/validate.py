"""`spectool validate`: trained as, run as, and the line that differs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from spectool.cli.options import Drafter, Format, From, OutputFormat, Quiet, Settings, Verifier, parse_settings


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
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="vllm==X",
            help="The vLLM release to speak about (default: the newest known), or a range such as 'vllm>=0.24': "
            "from which release on is it right?",
        ),
    ] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Exit with 1 from this severity on.")] = FailOn.error,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Check a drafter and its verifier before an engine starts."""
    from spectool import api  # noqa: PLC0415
    from spectool.cli.output import print_json, stdout  # noqa: PLC0415
    from spectool.engine.facts import releases  # noqa: PLC0415
    from spectool.report.jsonable import report_json  # noqa: PLC0415
    from spectool.report.text import print_releases, print_report  # noqa: PLC0415

    answers = parse_settings(settings)
    versions = releases(engine) if engine else None
    if versions is not None:
        reports = [
            api.validate(drafter, verifier=verifier, settings=answers, dialect=from_, engine=version)
            for version in versions
        ]
        good = [not reaches(fail_on, [item.severity for item in report.findings]) for report in reports]
        if format is Format.json:
            print_json({"releases": [report_json(report) for report in reports]})
        else:
            print_releases(reports, good, stdout())
        if not any(good):
            raise typer.Exit(1)
        return
    report = api.validate(drafter, verifier=verifier, settings=answers, dialect=from_, engine=engine)
    if format is Format.json:
        print_json(report_json(report))
    else:
        print_report(report, stdout(), quiet=quiet)
    if reaches(fail_on, [finding.severity for finding in report.findings]):
        raise typer.Exit(1)


def reaches(threshold: FailOn, severities: list[str]) -> bool:
    """Whether one of the severities reaches the threshold."""
    ranks = ["note", "warning", "error"]
    if threshold is FailOn.never:
        return False
    return any(ranks.index(severity) >= ranks.index(threshold.value) for severity in severities)
