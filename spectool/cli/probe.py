"""`spectool probe`: measure acceptance, speed and unchanged output in the user's own engine, or at a URL.

Register with `context_settings=CONTEXT_SETTINGS`, as `spectool serve`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectool.cli.options import PageFormat, PageOutput, Quiet, Settings, Verifier
from spectool.cli.serve import CONTEXT_SETTINGS, EnginePython, Workload

if TYPE_CHECKING:
    from spectool.cli.sweep import SweepOptions
    from spectool.serving.probe import Measured
    from spectool.serving.probe_report import Subject

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
    drafter: Annotated[
        str | None,
        typer.Argument(
            metavar="DRAFTER",
            help="The drafter's folder; with --url its name, to compare with what was published for it.",
            show_default=False,
        ),
    ] = None,
    *,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Ask this running server: http://HOST:PORT.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="With --url: the served name, of several.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", metavar="NAME", help="With --url: the variable that holds the key.")
    ] = None,
    expect: Annotated[
        float | None, typer.Option("--expect", min=1, metavar="LENGTH", help="With --url: compare with this length.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="With --url: compare with this sweep's profile.")
    ] = None,
    workload: Annotated[
        Workload | None, typer.Option("--workload", help="Compare with figures published for this.", show_default="any")
    ] = None,
    verifier: Verifier = None,
    settings: Settings = None,
    engine_python: EnginePython = None,
    prompts: Annotated[
        Path | None, typer.Option(help='One prompt a line, or JSON lines with "prompt".', show_default="a dozen")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate for each prompt.")] = 128,
    sweep: Annotated[
        Path | None,
        typer.Option(
            "--sweep", metavar="FOLDER", help="Measure K by load with vLLM's bench serve; run again to resume."
        ),
    ] = None,
    sweep_k: Annotated[
        str | None, typer.Option("--sweep-k", metavar="K,...", help="Drafts to try.", show_default="0, half, all")
    ] = None,
    sweep_requests: Annotated[
        str, typer.Option("--sweep-requests", metavar="N,...", help="Requests at a time.")
    ] = "1,4,16",
    acceptance: Annotated[
        float | None,
        typer.Option("--acceptance", min=1, metavar="LENGTH", help="Let vLLM act this acceptance length out."),
    ] = None,
    max_points: Annotated[int, typer.Option("--max-points", min=1, help="Points of a sweep at most.")] = 24,
    max_minutes: Annotated[float, typer.Option("--max-minutes", min=0.1, help="Begin no point after.")] = 60,
    force: Annotated[bool, typer.Option("--force", help="Measure a drafter that has errors.")] = False,
    format: PageOutput = PageFormat.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Run the verifier without and with the drafter and compare, or ask a running server. Flags after -- go to vllm."""
    from spectool.cli.command_of import describe_pair, find, flags_for, read_config_file
    from spectool.errors import UsageError
    from spectool.planning import flags
    from spectool.planning.command import served_name, take_speculative
    from spectool.serving import probe, probe_report
    from spectool.serving.address import Address, free_port
    from spectool.serving.progress import Progress
    from spectool.serving.prompts import default_prompts, read_prompts

    if url is not None:
        from spectool.cli.probe_url import Against, probe_url

        if verifier is not None or settings or engine_python or ctx.args or (sweep or sweep_k or acceptance):
            raise UsageError("--url asks a server that runs: no verifier, engine, sweep or vLLM flag goes with it")
        against = Against(expect, profile, drafter, workload)
        probe_url(url, model, api_key_env, against, prompts, max_tokens, format, quiet=quiet)
    if drafter is None:
        raise UsageError(
            "name a drafter, or a running server with --url",
            hint="spectool probe DRAFTER --verifier V, or spectool probe --url http://HOST:PORT",
        )
    for name, given in (
        ("--model", model),
        ("--api-key-env", api_key_env),
        ("--expect", expect),
        ("--profile", profile),
    ):
        if given is not None:
            raise UsageError(f"{name} goes with --url")
    extra = list(ctx.args)
    for flag in flags.given(extra):
        if flag.name in _REFUSED:
            raise UsageError(f"{flag.name} cannot be given to a probe: {_REFUSED[flag.name]}")
    for key in read_config_file(extra):
        if f"--{key}" in _REFUSED and key not in ("host", "port"):
            raise UsageError(f"{key} in the --config file cannot be used by a probe: {_REFUSED[f'--{key}']}")
    swept = _sweep_options(sweep, prompts, sweep_k, sweep_requests, acceptance, max_points, max_minutes, max_tokens)
    if swept is not None and workload is not None:
        raise UsageError("a sweep measures the workload of its --prompts: --workload does not go with it")
    if swept is not None and format is PageFormat.html:
        raise UsageError(
            "a sweep has no page of its own: spectool serve --profile FILE --dry-run --format html draws it"
        )
    texts = read_prompts(prompts) if prompts is not None and swept is None else default_prompts()
    pair = describe_pair(drafter, verifier, settings, extra, force=force)
    engine = find(engine_python, required=True)
    if swept is not None and engine is not None:
        from spectool.cli.profiled import speed_here
        from spectool.cli.sweep import run_sweep, show_profile

        swept_profile = run_sweep(swept, drafter, pair, engine, extra, quiet=quiet)
        speed = speed_here(swept_profile, engine, pair, settings, extra)
        show_profile(swept_profile, swept.folder, engine.version, speed, as_json=format is PageFormat.json)
        return
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
    names = (drafter.partition("@")[0], *((pair.found.view.name,) if pair.found is not None else ()))
    _say(subject, texts, measured, names, workload, format)
    raise typer.Exit(1 if probe_report.problems(measured) else 0)


def _say(
    subject: Subject,
    prompts: list[str],
    measured: Measured,
    names: tuple[str, ...],
    workload: str | None,
    form: PageFormat,
) -> None:
    """Print what was measured, beside what was published for a drafter of these names."""
    from spectool.cli.output import draws_blocks, print_json, print_text
    from spectool.report.plain import printable
    from spectool.serving import probe_report
    from spectool.serving.expectation import counted_k, expectation

    k = counted_k(measured.with_drafter.acceptance)
    expected, positions = expectation(k, None, None, names, workload)
    if form is PageFormat.json:
        print_json(probe_report.as_json(subject, prompts, measured, positions))
    elif form is PageFormat.html:
        print_text(probe_report.as_html(subject, prompts, measured, expected, positions))
    else:
        text = probe_report.as_text(subject, prompts, measured, positions, blocks=draws_blocks())
        sys.stdout.write(printable(text + "\n"))


def _sweep_options(
    folder: Path | None,
    prompts: Path | None,
    ks: str | None,
    loads: str,
    acceptance: float | None,
    most_points: int,
    minutes: float,
    max_tokens: int,
) -> SweepOptions | None:
    """Return what a sweep is asked to do; None where none is asked for.

    Raises:
        UsageError: options of a sweep came without it, or it has no prompts.

    """
    from spectool.cli.sweep import SweepOptions, check_workload
    from spectool.errors import UsageError

    if folder is None:
        if acceptance is not None or ks is not None:
            raise UsageError("--sweep-k and --acceptance go with --sweep FOLDER")
        return None
    swept = SweepOptions(folder, prompts, ks, loads, acceptance, most_points, minutes, max_tokens)
    check_workload(swept)
    return swept
