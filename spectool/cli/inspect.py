"""`spectool inspect`: say what a folder is."""

from __future__ import annotations

from spectool.cli.options import Format, From, OutputFormat, Settings, Source, Verifier, parse_settings


def command(
    source: Source,
    verifier: Verifier = None,
    settings: Settings = None,
    from_: From = None,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
) -> None:
    """Say what a drafter is: method, dialect, and every field with where it stands."""
    from spectool import api  # noqa: PLC0415
    from spectool.cli.output import print_json, stdout  # noqa: PLC0415
    from spectool.report.jsonable import inspection_json  # noqa: PLC0415
    from spectool.report.plans import print_inspection  # noqa: PLC0415

    found = api.inspect(source, verifier=verifier, settings=parse_settings(settings), dialect=from_)
    if format is Format.json:
        print_json(inspection_json(found))
    else:
        print_inspection(found, stdout())
