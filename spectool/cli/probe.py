"""`spectool probe DRAFTER --verifier V`: measure acceptance, speed and unchanged output in the user's own engine.

Register with `context_settings=CONTEXT_SETTINGS`, as `spectool serve`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from spectool.cli.options import Drafter, Format, OutputFormat, Quiet, Settings, Verifier
from spectool.cli.serve import CONTEXT_SETTINGS, EnginePython

__all__ = ["CONTEXT_SETTINGS", "command"]

# Flags that would move the server away from where the probe asks it, or turn its counters off.
_REFUSED = {
    "--host": "the probe listens on the loopback",
    "--port": "the probe chooses a free port",
    "--uds": "the probe asks over TCP",
    "--headless": "the probe asks over HTTP",
    "--ssl-certfile": "the probe asks over plain HTTP, on the loopback",
    "--ssl-keyfile": "the probe asks over plain HTTP, on the loopback",
    "--disable-log-stats": "without statistics there are no counters to read acceptance from",
}


def command(
    ctx: typer.Context,
    drafter: Drafter,
    *,
    verifier: Verifier = None,
    settings: Settings = None,
    engine_python: EnginePython = None,
    prompts: Annotated[
        Path | None, typer.Option(help='One prompt a line, or JSON lines with "prompt".', show_default="a dozen")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate for each prompt.")] = 128,
    force: Annotated[bool, typer.Option("--force", help="Measure a drafter that has errors.")] = False,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Run the verifier without and with the drafter, and compare. Flags after -- go to vllm serve."""
    from spectool.cli.command_of import describe_pair, find, flags_for, read_config_file
    from spectool.cli.output import print_json
    from spectool.errors import UsageError
    from spectool.planning import flags
    from spectool.planning.command import served_name, take_speculative
    from spectool.serving import probe, probe_report
    from spectool.serving.address import Address, free_port
    from spectool.serving.progress import Progress
    from spectool.serving.prompts import default_prompts, read_prompts

    extra = list(ctx.args)
    for flag in flags.given(extra):
        if flag.name in _REFUSED:
            raise UsageError(f"{flag.name} cannot be given to a probe: {_REFUSED[flag.name]}")
    for key in read_config_file(extra):
        if f"--{key}" in _REFUSED and key not in ("host", "port"):
            raise UsageError(f"{key} in the --config file cannot be used by a probe: {_REFUSED[f'--{key}']}")
    texts = read_prompts(prompts) if prompts is not None else default_prompts()
    pair = describe_pair(drafter, verifier, settings, extra, force=force)
    engine = find(engine_python, required=True)
    address = Address(port=free_port())
    served = [*extra, "--host", address.host, "--port", str(address.port)]
    with_drafter = [word for part in flags_for(engine, pair, served) for word in part.argv]
    job = probe.Job(
        without=[word for part in flags_for(engine, pair, served, drafting=False) for word in part.argv],
        with_drafter=with_drafter,
        address=address,
        model=served_name(with_drafter),
        prompts=texts,
        max_tokens=max_tokens,
        api_key=flags.value_of(extra, "--api-key") or os.environ.get("VLLM_API_KEY"),
    )
    with Progress(quiet=quiet) as progress:
        measured = probe.measure(job, progress)
    own, _ = take_speculative(extra)
    subject = probe_report.Subject(
        drafter=drafter,
        verifier=str(pair.verifier),
        method=str(pair.method),
        speculative_tokens=int((own or {}).get("num_speculative_tokens", pair.speculative_tokens)),
        engine=f"{engine.distribution} {engine.version}" if engine else "",
        device=engine.device if engine else "",
        max_tokens=max_tokens,
    )
    if format is Format.json:
        print_json(probe_report.as_json(subject, texts, measured))
    else:
        sys.stdout.write(probe_report.as_text(subject, texts, measured) + "\n")
    raise typer.Exit(1 if probe_report.problems(measured) else 0)
