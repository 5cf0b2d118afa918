"""`spectool serve DRAFTER|FILE`: build the `vllm serve` command for a drafter, run it, watch it, or write it down.

Register with `context_settings=CONTEXT_SETTINGS`: what comes after `--` must arrive in `ctx.args`. Unknown options
before `--` stay errors, since a mistyped option of ours must not become a flag of vLLM's.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from spectool.cli import profiled
from spectool.cli.options import PageFormat, Quiet, Settings, Verifier
from spectool.report.plain import tell

if TYPE_CHECKING:
    from spectool.cli.wish import Wish
    from spectool.engine.ask import Engine
    from spectool.planning.command import Flag
    from spectool.planning.launch import LaunchPlan
    from spectool.serving.serve import Job

CONTEXT_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": False}


class Check(StrEnum):
    """What the check after the start may do."""

    warn = "warn"
    strict = "strict"
    off = "off"


class EmitKind(StrEnum):
    """`spectool.emit.write.Kind`, whose module is imported only to emit; a test holds the two together."""

    sh = "sh"
    docker = "docker"
    compose = "compose"
    k8s = "k8s"
    systemd = "systemd"
    vllm_config = "vllm-config"


class Workload(StrEnum):
    """`spectool.speed.published.WORKLOADS`, imported only to plan; a test holds the two together."""

    chat = "chat"
    code = "code"
    documents = "documents"
    math = "math"
    tools = "tools"
    translation = "translation"


DrafterOrFile = Annotated[
    str,
    typer.Argument(
        metavar="DRAFTER|FILE", help="The drafter's folder, or a deployment file (serve.yaml).", show_default=False
    ),
]
EnginePython = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="The engine's interpreter; else SPECTOOL_ENGINE, else that of the vllm on PATH."),
]


def command(
    ctx: typer.Context,
    drafter: DrafterOrFile,
    *,
    verifier: Verifier = None,
    settings: Settings = None,
    engine_python: EnginePython = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:COUNT",
            help="Plan for these GPUs, such as a100-80gb:2 (h200:8x2: two machines), or auto: those of this machine.",
        ),
    ] = None,
    gpu_file: Annotated[
        str | None,
        typer.Option("--gpu-file", metavar="FILE", help="GPUs that spectool does not know, as TOML, JSON or YAML."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command and why, start nothing.")] = False,
    emit: Annotated[
        EmitKind | None, typer.Option("--emit", help="Print the launch as a file to hand over, start nothing.")
    ] = None,
    replace: Annotated[bool, typer.Option("--exec", help="Become the engine instead of watching it.")] = False,
    or_plain: Annotated[
        bool, typer.Option("--or-plain", help="Serve the verifier alone if it cannot start with the drafter.")
    ] = False,
    check: Annotated[
        Check, typer.Option("--check", help="A few prompts after the start: say what they show, stop if bad, or none.")
    ] = Check.warn,
    expect: Annotated[
        float | None,
        typer.Option(
            "--expect", min=1, metavar="LENGTH", help="The acceptance length the check and the speed range go by."
        ),
    ] = None,
    workload: Annotated[
        Workload | None, typer.Option("--workload", help="With --gpus: the speed range for such requests.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="Serve with the K `probe --sweep` measured best.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Serve a drafter that has errors.")] = False,
    format: Annotated[PageFormat, typer.Option("--format", help="How to print a dry run.")] = PageFormat.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Serve a drafter and its verifier in vLLM. Flags after -- go to vllm serve."""
    from dataclasses import replace as replaced

    from spectool.cli.command_of import (
        check_launch,
        defaults_of,
        describe_pair,
        errors_of,
        find,
        flags_for,
        named_gpus,
        plain_command,
        plan_for_gpus,
        read_config_file,
        speaks_of_newest,
    )
    from spectool.cli.launch_shown import explain, only_shown, show
    from spectool.cli.wish import wish_of
    from spectool.planning import flags
    from spectool.planning.command import served_name
    from spectool.planning.gpus import parse_gpus
    from spectool.planning.sampling_defaults import sampling_flags
    from spectool.planning.several import own_rank
    from spectool.serving.address import from_flags, with_port

    only_shown(format, dry_run=dry_run)
    wish = wish_of(drafter, verifier, settings, gpus, ctx.args)
    wish = replaced(wish, gpus=named_gpus(wish.gpus, gpu_file))
    profiled.check_workload(workload, wish.gpus)
    extra = with_port(wish.extra) if emit is None else wish.extra
    if wish.gpus is not None:
        parse_gpus(wish.gpus)  # an open question about the name comes before any work
    file_keys = read_config_file(extra)
    address = from_flags(extra, file_keys)
    runs_here = emit is None and not dry_run and not replace
    pair = describe_pair(wish.drafter, wish.verifier, wish.settings, extra, force=force or (or_plain and runs_here))
    flags_for(None, pair, extra)  # what is wrong with the flags is said before an engine is asked
    # What is emitted runs elsewhere: the engine of this machine has no part in it, unless it is named.
    engine, extra = profiled.with_profile(
        find(engine_python, required=not dry_run) if emit is None or engine_python else None,
        extra,
        profile,
        wish,
        str(pair.method),
    )
    plan = plan_for_gpus(
        engine,
        pair,
        wish.gpus,
        wish.settings,
        extra,
        file_keys,
        wish.release,
        workload=workload,
        expected=wish.expected(expect),
        profile=profiled.read_profile(profile) if profile is not None else None,
    )
    nodes = plan.gpus.nodes if plan is not None else 1
    planned = [*(plan.flags if plan is not None else ()), *sampling_flags(defaults_of(str(pair.verifier)), extra)]
    if runs_here or replace:
        planned += own_rank(extra, nodes)
        address = from_flags([*extra, *(word for part in planned for word in part.argv)], file_keys)
    parts = flags_for(engine, pair, extra, planned=planned)
    said: list[str] = []
    if extra or planned or not speaks_of_newest(engine, wish.release):
        said = check_launch(pair, wish.settings, parts, engine, wish.release, force=force or (or_plain and runs_here))
    argv = [word for part in parts for word in part.argv]
    if emit is not None:
        hand_over(emit, parts, pair, wish, engine, plan)
        return
    if dry_run:
        show(wish.drafter, parts, format, plan, said)
        return
    if not quiet:
        explain(parts if plan is not None else [], plan, said)
    environment = wish.environment()
    refused = bool(errors_of(pair)) and not force
    plain = plain_command(engine, pair, extra, plan) if or_plain else None
    if replace:
        become(argv, environment)
    from spectool.serving.expectation import published_expectation
    from spectool.serving.serve import Job

    job = Job(
        argv=plain if refused and plain is not None else argv,
        drafting=not refused,
        address=address,
        name=served_name(argv),
        plain=plain,
        check=check is not Check.off,
        strict=check is Check.strict,
        expected=wish.expected(expect) or published_expectation(wish.named(pair), argv, workload),
        api_key=flags.value_of(extra, "--api-key") or environment.get("VLLM_API_KEY"),
        env=environment,
    )
    raise typer.Exit(run(job, quiet=quiet))


def become(argv: list[str], environment: dict[str, str]) -> NoReturn:
    """Replace this process with the engine."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(argv[0], argv, environment)  # noqa: S606 - no shell is meant


def run(job: Job, *, quiet: bool) -> int:
    """Serve, and return the exit code."""
    from spectool.serving.progress import Progress
    from spectool.serving.serve import serve

    with Progress(quiet=quiet) as progress:
        return serve(job, progress)


def hand_over(
    kind: EmitKind, parts: list[Flag], pair: Any, wish: Wish, engine: Engine | None, plan: LaunchPlan | None
) -> None:
    """Print the launch as one file to stdout, and what to know about it to stderr."""
    from spectool.emit.write import Kind, write
    from spectool.engine.facts import engine_facts
    from spectool.formats.deployment import Deployment
    from spectool.planning.gpus import parse_gpus

    version = wish.release or (engine.version if engine is not None else engine_facts(None).version)
    text, notes = write(
        Kind(kind.value),
        parts,
        wish.deployment or Deployment(deployment_version=1, drafter=wish.drafter),
        verifier=str(pair.verifier),
        drafter=str(pair.drafter),
        version=version,
        gpus=parse_gpus(wish.gpus) if wish.gpus is not None else None,
    )
    sys.stdout.write(text)
    for note in [*notes, *(plan.notes if plan is not None else ())]:
        tell(f"note: {note}")
