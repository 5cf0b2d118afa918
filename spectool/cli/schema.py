"""`spectool schema`: the published JSON Schemas, and a check of files that says more than a schema can."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from spectool.cli import upgrade
from spectool.cli.command import Command
from spectool.cli.options import Format, OutputFormat, Quiet, Settings, parse_settings
from spectool.cli.validate import FailOn

app = typer.Typer(
    name="schema",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, show and export the published JSON Schemas; check files as they stand in a repository.",
)
app.command("upgrade", cls=Command)(upgrade.command)


class KindName(StrEnum):
    """What files are meant to be."""

    config = "config"
    deployment = "deployment"
    dialect = "dialect"
    provenance = "provenance"


@app.command("list", cls=Command)
def list_(
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
) -> None:
    """List the schemas."""
    from rich.table import Table

    from spectool.cli.output import print_json, stdout
    from spectool.formats.schemas import BASE, published

    if format is Format.json:
        print_json(
            [{"name": item.name, "id": BASE + item.filename, "title": item.title} for item in published().values()]
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "what"):
        table.add_column(column, overflow="fold")
    for item in published().values():
        table.add_row(item.name, item.title)
    stdout().print(table)


@app.command(cls=Command)
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="As `spectool schema list` has it.")]) -> None:
    """Print one schema."""
    import sys

    from spectool.formats.schemas import shipped_text

    sys.stdout.write(shipped_text(name))


@app.command(cls=Command)
def export(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them.")]) -> None:
    """Write all schemas into a folder."""
    from spectool.cli.output import stdout
    from spectool.errors import OutputError
    from spectool.formats.schemas import published, shipped_text

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for item in published().values():
            (folder / item.filename).write_text(shipped_text(item.name), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    stdout().print(f"wrote {len(published())} schemas to {folder}", markup=False)


@app.command(cls=Command)
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="config.json, deployment, dialect files.")],
    kind: Annotated[
        KindName | None, typer.Option("--kind", help="What the files are; default: found out file by file.")
    ] = None,
    settings: Settings = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Exit with 1 from this severity on.")] = FailOn.error,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name the files that are passed over.")] = False,
    quiet: Quiet = False,
) -> None:
    """Check files: structure, and every rule that needs no weights. Configs of other models are passed over."""
    from spectool.cli.output import print_json, print_text, stderr
    from spectool.schema_check.check import check_files
    from spectool.schema_check.report import check_json, lines_of, summary

    talk, results = stderr(), []
    for result in check_files(files, kind=kind.value if kind else None, settings=parse_settings(settings)):
        results.append(result)
        if result.status == "unreadable":
            talk.print(f"error: {result.why}", markup=False)
            if result.hint:
                talk.print(f"hint: {result.hint}", markup=False)
        elif result.status == "passed over" and verbose:
            talk.print(f"{result.file}: passed over, {result.why}", markup=False)
        elif format is Format.text:
            print_text("".join(f"{line}\n" for line in lines_of(result)))
    if format is Format.json:
        print_json(check_json(results))
    if not quiet:
        talk.print(summary(results), markup=False)
    if any(result.status == "unreadable" for result in results):
        raise typer.Exit(2)
    if fails(fail_on, [item.severity for result in results for item in result.findings]):
        raise typer.Exit(1)


def fails(threshold: FailOn, severities: list[str]) -> bool:
    """Whether one of the severities reaches the threshold."""
    ranks = ["note", "warning", "error"]
    if threshold is FailOn.never:
        return False
    return any(ranks.index(severity) >= ranks.index(threshold.value) for severity in severities)
