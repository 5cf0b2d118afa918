"""`spectool schema upgrade`: repair Speculators configs where the meaning is certain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectool.cli.options import Engine, Format, OutputFormat, Settings, Verifier, parse_settings


def command(
    target: Annotated[str, typer.Argument(metavar="FOLDER|FILE", help="A drafter folder, or its config.json.")],
    write: Annotated[bool, typer.Option("--write", help="Make the changes; else they are only shown.")] = False,
    verifier: Verifier = None,
    settings: Settings = None,
    engine: Engine = None,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
) -> None:
    """Repair a Speculators config in place: what early trainers wrote, in the keys that say what they meant.

    Weights are not touched. Without --write the exit code is 1 when there is something to repair; with it, when an
    error remains that no certain repair answers.
    """
    from dataclasses import asdict

    from spectool.cli.output import print_json, print_text, stderr
    from spectool.report.text import finding_text
    from spectool.upgrade.upgrade import entry, plan_upgrade, write_upgrade

    upgrade = plan_upgrade(Path(target), settings=parse_settings(settings), verifier=verifier, engine=engine)
    if write:
        write_upgrade(upgrade)
    errors = [finding for finding in upgrade.remaining if finding.severity == "error"]
    if format is Format.json:
        remaining = [asdict(finding) for finding in upgrade.remaining]
        print_json({"file": target, "written": write, **entry(upgrade), "diff": upgrade.diff(), "remaining": remaining})
    else:
        print_text(upgrade.diff())
        talk = stderr()
        for repair in upgrade.repairs:
            talk.print(f"{'repaired' if write else 'would repair'} {repair.code}: {repair.why}", markup=False)
        for finding in upgrade.remaining:
            talk.print(finding_text(finding))
        if not upgrade.repairs:
            talk.print("nothing to repair", markup=False)
    if errors or (upgrade.repairs and not write):
        raise typer.Exit(1)
