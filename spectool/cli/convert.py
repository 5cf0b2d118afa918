"""`spectool convert`: a drafter into the Speculators format or back, proved and repeated by its record."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # commands stay cheap to import
    from spectool.api import ConversionPlan
    from spectool.hub.publish import Publication

from spectool.cli.options import Engine, Format, From, OutputFormat, Quiet, Settings, Verifier, parse_settings


class To(StrEnum):
    """Output formats (`spectool.writers.formats.FORMATS`, which starting up does not import)."""

    speculators = "speculators"
    zlab = "zlab"
    deepspec = "deepspec"
    specforge = "specforge"
    vllm = "vllm"


def command(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="The drafter: a folder, org/name or org/name@revision.", show_default=False
        ),
    ] = None,
    out: Annotated[str | None, typer.Argument(metavar="OUT", help="The folder to make.", show_default=False)] = None,
    verifier: Verifier = None,
    settings: Settings = None,
    from_: From = None,
    to: Annotated[To, typer.Option("--to", metavar="FORMAT", help=f"Output format: {', '.join(To)}.")] = To.speculators,
    engine: Engine = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    max_shard_size: Annotated[
        str, typer.Option("--max-shard-size", metavar="SIZE", help="Split the weights above this size (5GB, 500MB).")
    ] = "5GB",
    card: Annotated[
        str | None,
        typer.Option("--card", metavar="ORG/NAME", help="Write a model card (README.md) for this repository."),
    ] = None,
    to_hub: Annotated[
        str | None,
        typer.Option(
            "--to-hub",
            metavar="ORG/NAME",
            help="Publish OUT there, with a model card; with --dry-run: show what would be sent.",
        ),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make the repository of --to-hub private.")] = False,
    verify: Annotated[
        str | None,
        typer.Option("--verify", metavar="FOLDER", help="Prove an earlier output against its record; nothing else."),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="RECORD",
            help="Repeat the conversion of a provenance.json or its folder, with the same bytes or not at all. "
            "SOURCE may be left out where the record names a commit of the Hub.",
        ),
    ] = None,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Convert a drafter into the Speculators format, or from it into another, exactly or not at all."""
    from spectool import api
    from spectool.cli.output import copying, print_json, stderr, stdout
    from spectool.errors import UsageError
    from spectool.report.jsonable import plan_json
    from spectool.report.plans import print_plan, print_written
    from spectool.report.publications import print_publication, publication_json

    if verify is not None:
        _verify(
            verify,
            format,
            quiet=quiet,
            alone=(source, out, replay, from_, engine, card, settings, verifier) == (None,) * 8,
        )
        return
    if replay is not None:
        if out is None and not dry_run:
            source, out = None, source
        _only_what_a_record_leaves_open(from_, engine, card, settings, to, max_shard_size)
        plan = api.plan_replay(replay, source, verifier)
    elif source is None:
        raise UsageError("SOURCE is missing", hint="Name the drafter: a folder, org/name or org/name@revision.")
    else:
        plan = api.plan_conversion(
            source, verifier=verifier, settings=parse_settings(settings), dialect=from_, engine=engine, to=to.value
        )
    if private and to_hub is None:
        raise UsageError("--private is about the repository of --to-hub, which is not given")
    if out is None and not dry_run:
        raise UsageError("OUT is missing", hint="Name the folder to make, or look at the plan with --dry-run.")
    shard_bytes = parse_size(max_shard_size)
    sending = _publication(plan, to_hub, shard_bytes, private=private) if to_hub is not None else None
    if dry_run or out is None:
        if format is Format.json:
            print_json({**plan_json(plan), **({"publication": publication_json(sending)} if sending else {})})
        else:
            print_plan(plan, stdout())
            if sending is not None:
                print_publication(sending, stdout())
        return
    if to_hub is not None:
        from spectool.hub.publish import check_target

        check_target(to_hub, private=private, replace=force)
    if not quiet and format is Format.text:
        print_plan(plan, stderr(), brief=True)
    with copying(f"writing {Path(out).name}", quiet=quiet) as progress:
        files = api.convert(
            plan, Path(out), shard_bytes=shard_bytes, overwrite=force, card=card or to_hub or "", progress=progress
        )
    if format is not Format.json:
        print_written(plan, Path(out), files, stdout())
    address = None
    if to_hub is not None:
        from spectool.hub.publish import publish

        address = publish(Path(out), to_hub, private=private, replace=force)
    if format is Format.json:
        written = [{"name": item.name, "nbytes": item.nbytes, "sha256": item.sha256} for item in files]
        published = {"published": address} if address is not None else {}
        print_json({"out": out, "files": written, "plan": plan_json(plan), **published})
    elif address is not None:
        stdout().print(f"published: {address}", markup=False)


def _publication(plan: ConversionPlan, repo: str, shard_bytes: int, *, private: bool) -> Publication:
    from spectool.hub.publish import publication
    from spectool.record.carried import carried_files
    from spectool.tensors.sizes import file_sizes

    carried = carried_files(plan.inspection.source)
    verifier = plan.inspection.verifier
    tensors = verifier.tensors if verifier else None
    sizes = file_sizes(plan.output, plan.inspection.source, carried, shard_bytes, tensors)
    return publication(repo, sizes, private=private)


def _only_what_a_record_leaves_open(
    from_: str | None, engine: str | None, card: str | None, settings: list[str] | None, to: To, size: str
) -> None:
    """Raise for options whose answers the record has."""
    from spectool.errors import UsageError

    given: dict[str, object] = {"--from": from_, "--engine": engine, "--card": card, "--set": settings}
    given |= {"--to": to is not To.speculators, "--max-shard-size": size != "5GB"}
    names = [name for name, value in given.items() if value]
    if names:
        raise UsageError(f"--replay takes its answers from the record, not from {', '.join(names)}")


def _verify(folder: str, format: Format, *, quiet: bool, alone: bool) -> None:  # noqa: A002 - the option's name
    from dataclasses import asdict

    from spectool import api
    from spectool.cli.output import copying, print_json, stdout
    from spectool.errors import UsageError
    from spectool.report.verifications import print_verification

    if not alone:
        raise UsageError("--verify looks at one folder and takes nothing else", hint=f"convert --verify {folder}")
    with copying(f"reading {Path(folder).name}", quiet=quiet) as progress:
        found = api.verify(Path(folder), progress)
    if format is Format.json:
        record = None if found.record is None else found.record.model_dump(mode="json", exclude_none=True)
        problems = [asdict(problem) for problem in found.problems]
        print_json({"folder": folder, "problems": problems, "notes": list(found.notes), "record": record})
    else:
        print_verification(found, folder, stdout())
    if found.problems:
        raise typer.Exit(1)


def parse_size(text: str) -> int:
    """Return a size in bytes: `5GB` is decimal, as on the Hub; `5GiB` is binary.

    Raises:
        UsageError: it is no size.

    """
    import re

    from spectool.errors import UsageError

    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in units or not (size := int(float(match[1]) * units[match[2].upper()])):
        raise UsageError(f"--max-shard-size {text} is no size", hint="Write for example 5GB or 500MB.")
    return size
