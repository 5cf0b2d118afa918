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
    """Say what a drafter is: method, dialect, every field with where it stands, and what was published about it.

    For a verifier (a folder, or a Hub id org/name) the drafters known for it are listed.
    """
    from spectool import api
    from spectool.catalogue.known import for_verifier, known_drafters, like_verifier, recognise, republished
    from spectool.cli.output import print_json, stdout
    from spectool.loading import hub_id, verifier_of
    from spectool.report.jsonable import inspection_json
    from spectool.report.known import known_json, lines_about, print_known
    from spectool.report.plans import print_inspection

    name = hub_id(source)
    if name is not None:
        known = for_verifier(name) or [item for item in known_drafters() if item.drafter.lower() == name.lower()]
    else:
        view = verifier_of(source)
        known = like_verifier(view) if view is not None else []
    if name is not None or view is not None:
        print_json({"name": source, "known": known_json(known)}) if format is Format.json else print_known(
            source, known, stdout()
        )
        return
    found = api.inspect(source, verifier=verifier, settings=parse_settings(settings), dialect=from_)
    recognised = recognise(found.reading.drafter)
    others = republished(recognised, found.reading.drafter)
    if format is Format.json:
        print_json({**inspection_json(found), "known": known_json(recognised), "republished": known_json(others)})
        return
    console = stdout()
    print_inspection(found, console)
    for line in lines_about(recognised, others):
        console.print(line, markup=False)
