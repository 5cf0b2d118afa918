"""`spectool inspect`: say what a folder is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # commands stay cheap to import
    from spectool.api import Inspection

from spectool.cli.options import From, PageFormat, Settings, Source, Verifier, parse_settings


def command(
    source: Source,
    verifier: Verifier = None,
    settings: Settings = None,
    from_: From = None,
    format: Annotated[PageFormat, typer.Option("--format", help="How to print the result.")] = PageFormat.text,  # noqa: A002 - the option's name
) -> None:
    """Say what a drafter is: method, dialect, every field with where it stands, and what was published about it.

    For a verifier (a folder, or a Hub id org/name) the drafters known for it are listed.
    """
    from spectool import api
    from spectool.catalogue.known import for_verifier, known_drafters, like_verifier
    from spectool.cli.output import print_json, print_text, stdout
    from spectool.loading import hub_id, known_by_name_only, own_head, verifier_of
    from spectool.report.html.inspection import inspection_html, known_html
    from spectool.report.jsonable import inspection_json
    from spectool.report.known import known_json, lines_about, print_known, published_json
    from spectool.report.plain import tell
    from spectool.report.plans import print_inspection

    name = hub_id(source)
    by_name_only = known_by_name_only(source)
    view = None if by_name_only else verifier_of(source)
    # A folder that bears a verifier's name is a copy of it, until something says otherwise.
    known = for_verifier(name or (view.name if view is not None else ""))
    if by_name_only and name is not None and not known:
        known = [item for item in known_drafters() if item.drafter.lower() == name.lower()]
    by_size = view is not None and not known
    if view is not None and by_size:
        known = like_verifier(view)
    if by_name_only or view is not None:
        own = own_head(source) if view is not None else None
        match format:
            case PageFormat.json:
                print_json({"name": source, "by_size": by_size, "known": known_json(known), "own_head": own})
            case PageFormat.html:
                print_text(known_html(source, known, by_size=by_size))
            case PageFormat.text:
                print_known(source, known, stdout(), by_size=by_size, verifier=view)
                if own is not None:
                    stdout().print(own, markup=False)
        if by_name_only and not known:
            tell(
                f"note: {source} was not fetched before and HF_HUB_OFFLINE is set, so only the list of known drafters "
                "was asked; without it spectool reads the repository's config and headers"
            )
        return
    found = api.inspect(source, verifier=verifier, settings=parse_settings(settings), dialect=from_)
    about, origin = found.published, found.source.origin
    lines = lines_about(about, commit=origin.commit if origin is not None else None)
    if format is PageFormat.html:
        print_text(inspection_html(found, lines))
        return
    if format is PageFormat.json:
        print_json({**inspection_json(found), **published_json(about)})
        return
    console = stdout()
    print_inspection(found, console)
    for line in lines:
        console.print(line, markup=False)
    tell(f"next: {_next(found, source, verifier)}")


def _next(found: Inspection, source: str, verifier: str | None) -> str:
    """Return the command that answers the next question: does it fit the verifier, or what would vLLM read."""
    import shlex

    from spectool.loading import hub_id

    looks = found.published.looks_like
    recorded = found.reading.verifier_name or ""
    if hub_id(recorded) is None and not Path(recorded or "/nowhere").is_dir():
        recorded = ""  # a path of the machine it was trained on
    named = verifier or recorded or (looks[0].verifier if looks else None)
    verb = ["convert", source, "OUT"] if found.dialect.file.layout == "foreign" else ["validate", source]
    return shlex.join(["spectool", *verb, "--verifier", named or "VERIFIER"])
