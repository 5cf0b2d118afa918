"""`spectool convert`: a third-party checkpoint into the Speculators format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectool.cli.options import Engine, Format, From, OutputFormat, Quiet, Settings, Source, Verifier, parse_settings


def command(
    source: Source,
    out: Annotated[str | None, typer.Argument(metavar="OUT", help="The folder to make.", show_default=False)] = None,
    verifier: Verifier = None,
    settings: Settings = None,
    from_: From = None,
    engine: Engine = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    max_shard_size: Annotated[
        str, typer.Option("--max-shard-size", metavar="SIZE", help="Split the weights above this size (5GB, 500MB).")
    ] = "5GB",
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Convert a drafter into the Speculators format, exactly or not at all."""
    from spectool import api
    from spectool.cli.output import copying, print_json, stderr, stdout
    from spectool.errors import UsageError
    from spectool.report.jsonable import plan_json
    from spectool.report.plans import print_plan, print_written

    if out is None and not dry_run:
        raise UsageError("OUT is missing", hint="Name the folder to make, or look at the plan with --dry-run.")
    shard_bytes = parse_size(max_shard_size)
    plan = api.plan_conversion(
        source, verifier=verifier, settings=parse_settings(settings), dialect=from_, engine=engine
    )
    if dry_run or out is None:
        print_json(plan_json(plan)) if format is Format.json else print_plan(plan, stdout())
        return
    if not quiet and format is Format.text:
        print_plan(plan, stderr(), brief=True)
    with copying(f"writing {Path(out).name}", quiet=quiet) as progress:
        files = api.convert(plan, Path(out), shard_bytes=shard_bytes, overwrite=force, progress=progress)
    if format is Format.json:
        written = [{"name": item.name, "nbytes": item.nbytes, "sha256": item.sha256} for item in files]
        print_json({"out": out, "files": written, "plan": plan_json(plan)})
    else:
        print_written(plan, Path(out), files, stdout())


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
