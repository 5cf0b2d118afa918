"""`spectool probe --url`: ask a running server, and compare what it accepts with what is expected."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import typer

from spectool.cli.options import PageFormat


@dataclass(frozen=True)
class Against:
    """What a running server is compared with: a length, a profile, or what was published for a drafter."""

    length: float | None
    profile: Path | None
    drafter: str | None
    workload: str | None


def probe_url(
    url: str,
    model: str | None,
    api_key_env: str | None,
    against: Against,
    prompts: Path | None,
    max_tokens: int,
    form: PageFormat,
    *,
    quiet: bool,
) -> NoReturn:
    """Ask a running server and say what was found; exit with 0 for good, 1 for everything worse."""
    from spectool.cli.output import draws_blocks, print_json, print_text
    from spectool.cli.profiled import read_profile
    from spectool.errors import UsageError
    from spectool.report.plain import printable, tell
    from spectool.serving import remote, remote_report
    from spectool.serving.expectation import counted_k, expectation
    from spectool.serving.progress import Progress
    from spectool.serving.prompts import default_prompts, read_prompts

    if against.workload is not None and against.drafter is None:
        raise UsageError("--workload narrows what was published for a drafter: name it, before --url")
    key = os.environ.get(api_key_env) if api_key_env is not None else None
    if api_key_env is not None and not key:
        raise UsageError(f"{api_key_env} is not set, or empty")
    client = remote.server_of(url, key)
    texts = read_prompts(prompts) if prompts is not None else default_prompts()
    profile = read_profile(against.profile) if against.profile is not None else None
    named = against.drafter.partition("@")[0] if against.drafter is not None else None
    names = (named, Path(named).name) if named is not None else ()
    with Progress(quiet=quiet) as progress:
        found = remote.measure_remote(client, texts, max_tokens, progress, model)
    expected, positions = expectation(counted_k(found.acceptance), against.length, profile, names, against.workload)
    if expected is None and names and not quiet:
        k = counted_k(found.acceptance)
        tell(f"spectool: nothing published of {against.drafter} compares with the {k} drafts a round that were counted")
    if form is PageFormat.json:
        print_json(remote_report.as_json(url, found, expected, positions))
    elif form is PageFormat.html:
        print_text(remote_report.as_html(url, found, expected, positions))
    else:
        text = remote_report.as_text(url, found, expected, positions, blocks=draws_blocks())
        sys.stdout.write(printable(text + "\n"))
    raise typer.Exit(0 if remote_report.as_json(url, found, expected)["ok"] else 1)
