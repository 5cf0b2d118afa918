"""`spectool serve DRAFTER|FILE`: build the `vllm serve` command for a drafter, run it, watch it, or write it down.

Register with `context_settings=CONTEXT_SETTINGS`: what comes after `--` must arrive in `ctx.args`. Unknown options
before `--` stay errors, since a mistyped option of ours must not become a flag of vLLM's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectool.cli.options import Format, OutputFormat, Quiet, Settings, Verifier, parse_settings

if TYPE_CHECKING:
    from spectool.engine.ask import Engine
    from spectool.formats.deployment import Deployment
    from spectool.planning.command import Flag
    from spectool.planning.launch import LaunchPlan

CONTEXT_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": False}


class EmitKind(StrEnum):
    """`spectool.emit.write.Kind`, whose module is imported only to emit; a test holds the two together."""

    sh = "sh"
    docker = "docker"
    compose = "compose"
    k8s = "k8s"
    systemd = "systemd"
    vllm_config = "vllm-config"


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
            help="Plan for these GPUs, such as a100-80gb:2 (h200:8x2: two machines): flags and memory.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command and why, start nothing.")] = False,
    emit: Annotated[
        EmitKind | None, typer.Option("--emit", help="Print the launch as a file to hand over, start nothing.")
    ] = None,
    replace: Annotated[bool, typer.Option("--exec", help="Become the engine instead of watching it.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Serve a drafter that has errors.")] = False,
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Serve a drafter and its verifier in vLLM. Flags after -- go to vllm serve."""
    from spectool.planning.command import served_name
    from spectool.planning.gpus import parse_gpus
    from spectool.serving.address import from_flags, with_port
    from spectool.serving.progress import Progress
    from spectool.serving.serve import serve

    wish = wish_of(drafter, verifier, settings, gpus, ctx.args)
    extra = with_port(wish.extra) if emit is None else wish.extra
    if wish.gpus is not None:
        parse_gpus(wish.gpus)  # an open question about the name comes before any work
    file_keys = read_config_file(extra)
    address = from_flags(extra, file_keys)
    pair = describe_pair(wish.drafter, wish.verifier, wish.settings, extra, force=force)
    flags_for(None, pair, extra)  # what is wrong with the flags is said before an engine is asked
    # What is emitted runs elsewhere: the engine of this machine has no part in it, unless it is named.
    engine = find(engine_python, required=not dry_run) if emit is None or engine_python else None
    plan = None
    if wish.gpus is not None:
        plan = plan_for_gpus(engine, pair, wish.gpus, wish.settings, extra, file_keys, wish.release)
    parts = flags_for(engine, pair, extra, planned=plan.flags if plan is not None else ())
    argv = [word for part in parts for word in part.argv]
    if emit is not None:
        hand_over(emit, parts, pair, wish, engine, plan)
        return
    if dry_run:
        show(parts, format, plan)
        return
    if plan is not None and not quiet:
        explain(parts, plan)
    environment = wish.environment()
    if replace:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(argv[0], argv, environment)  # noqa: S606 - no shell is meant
    with Progress(quiet=quiet) as progress:
        code = serve(argv, address, progress, name=served_name(argv), env=environment)
    raise typer.Exit(code)


@dataclass(frozen=True)
class Wish:
    """What the user wants served, from options or from a deployment file.

    `release` is the vLLM a deployment file is meant for; `deployment` the rest of the file.
    """

    drafter: str
    verifier: str | None
    settings: list[str] | None
    gpus: str | None
    extra: list[str]
    deployment: Deployment | None = None

    @property
    def release(self) -> str | None:
        """The vLLM release that a deployment file names."""
        named = self.deployment.engine if self.deployment is not None else None
        return named.removeprefix("vllm==") if named is not None else None

    def environment(self) -> dict[str, str]:
        """Return the engine's variables: ours, and those of the file.

        Raises:
            UsageError: a secret's variable is not set.

        """
        from spectool.errors import UsageError

        found = dict(os.environ)
        if self.deployment is None:
            return found
        found.setdefault("VLLM_ENGINE_READY_TIMEOUT_S", str(self.deployment.start_seconds))
        if self.deployment.cache is not None and self.deployment.cache.startswith("/"):
            found["HF_HOME"] = self.deployment.cache
        for name, source in self.deployment.secrets.items():
            variable = source.removeprefix("env:") if source.startswith("env:") else name
            if not os.environ.get(variable):
                raise UsageError(f"{variable} is not set: the deployment file takes {name} from it")
            found[name] = os.environ[variable]
        return found | self.deployment.env


def wish_of(drafter: str, verifier: str | None, settings: list[str] | None, gpus: str | None, extra: list[str]) -> Wish:
    """Read the deployment file if one is named; options and flags on the command line win over it."""
    from spectool.deployment import is_deployment, read_deployment, vllm_words
    from spectool.planning import flags
    from spectool.planning.command import SERVED_NAME

    if not is_deployment(drafter):
        return Wish(drafter, verifier, settings, gpus, list(extra))
    file = read_deployment(drafter)
    own = {text.partition("=")[0] for text in settings or []}
    answers = [f"{key}={_spelled(value)}" for key, value in file.settings.items() if key not in own]
    given = {flag.name.removeprefix("--") for flag in flags.given(extra)}
    table = {key: value for key, value in file.vllm.items() if not {key, f"no-{key}"} & given}
    words = vllm_words(table)
    if file.served_name is not None and not flags.has(extra, SERVED_NAME):
        words += [SERVED_NAME, file.served_name]
    return Wish(
        drafter=file.drafter,
        verifier=verifier or file.verifier,
        settings=[*answers, *(settings or [])],
        gpus=gpus or file.gpus,
        extra=[*words, *extra],
        deployment=file,
    )


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
        sys.stderr.write(f"note: {note}\n")


def describe_pair(
    drafter: str, verifier: str | None, settings: list[str] | None, extra: list[str], *, force: bool
) -> Any:
    """Ask what the drafter is, and refuse one with errors.

    A number of tokens in the user's `--speculative-config` answers the question for it, as `--set` would.

    Raises:
        RefusedError: it has findings of severity error, and force is off.

    """
    from spectool.api import describe
    from spectool.errors import RefusedError
    from spectool.planning.command import take_speculative

    answers = parse_settings(settings)
    own, _ = take_speculative(extra)
    count = (own or {}).get("num_speculative_tokens")
    if isinstance(count, int):
        answers.setdefault("speculative_tokens", count)
    pair = describe(drafter, verifier, answers)
    errors = [found for found in pair.findings if getattr(found.severity, "value", found.severity) == "error"]
    for found in errors:
        sys.stderr.write(f"error {found.code}: {found.message}\n")
        if getattr(found, "fix", None):
            sys.stderr.write(f"  fix: {found.fix}\n")
    if errors and not force:
        raise RefusedError(
            f"{drafter} has {len(errors)} error{'' if len(errors) == 1 else 's'}, so no engine was started",
            hint="spectool validate shows both sides of each; --force starts it all the same.",
        )
    return pair


def find(engine_python: str | None, *, required: bool) -> Engine | None:
    """Find the engine; without one, a dry run still shows the command for an engine elsewhere.

    Raises:
        EngineMissingError: none was found and one is required, or was named.

    """
    from spectool.engine.ask import find_engine
    from spectool.engine.locate import VARIABLE
    from spectool.errors import EngineMissingError

    try:
        return find_engine(engine_python)
    except EngineMissingError as error:
        if required or engine_python or os.environ.get(VARIABLE):
            raise
        sys.stderr.write(f"note: {error.message}; the command is for an engine elsewhere\n")
        return None


def plan_for_gpus(
    engine: Engine | None,
    pair: Any,
    gpus: str,
    settings: list[str] | None,
    extra: list[str],
    file_keys: dict[str, str],
    release: str | None = None,
) -> LaunchPlan:
    """Plan the launch on given GPUs, for the engine found, the release named, or the newest one known."""
    from spectool.launch_plan import plan_for
    from spectool.planning.command import take_speculative

    own, rest = take_speculative(extra)
    return plan_for(
        str(pair.drafter),
        str(pair.verifier),
        gpus,
        settings=parse_settings(settings) | {"speculative_tokens": int(pair.speculative_tokens)},
        extra=rest,
        file_keys=file_keys,
        k=(own or {}).get("num_speculative_tokens"),
        engine=engine.version if engine is not None else release,
    )


def flags_for(
    engine: Engine | None, pair: Any, extra: list[str], *, drafting: bool = True, planned: Sequence[Flag] = ()
) -> list[Flag]:
    """Return the parts of the command for a described pair, with or without its drafter."""
    from spectool.planning.command import serve_flags, speculative_config, take_speculative

    if not drafting:
        return serve_flags(engine, str(pair.verifier), None, take_speculative(extra)[1])
    speculative = speculative_config(str(pair.method), str(pair.drafter), int(pair.speculative_tokens))
    return serve_flags(engine, str(pair.verifier), speculative, extra, planned)


def read_config_file(extra: list[str]) -> dict[str, str]:
    """Return the top-level keys of the user's `--config` file.

    Raises:
        SourceError: it cannot be read.
        UsageError: it sets the model or speculative decoding.

    """
    from pathlib import Path

    from spectool.errors import SourceError
    from spectool.planning import flags
    from spectool.planning.command import refuse_config_file

    name = flags.value_of(extra, "--config")
    if name is None:
        return {}
    try:
        keys = flags.top_level(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {name}, named by --config: {error}") from error
    refuse_config_file(keys, name)
    return keys


def show(parts: list[Flag], form: Format, plan: LaunchPlan | None = None) -> None:
    """Print the command to stdout; as text, plan and reasons go to stderr, so that stdout can be pasted."""
    from spectool.cli.output import print_json
    from spectool.planning import render

    if form is Format.json:
        document = render.as_json(parts)
        if plan is not None:
            from spectool.report.serve_plan import launch_record

            document["plan"] = launch_record(plan)
        print_json(document)
        return
    sys.stdout.write(render.as_shell(parts) + "\n")
    sys.stdout.flush()
    explain(parts, plan)


def explain(parts: list[Flag], plan: LaunchPlan | None) -> None:
    """Say on stderr why each flag is there, and what the plan found."""
    from spectool.planning import render
    from spectool.report.plain import printable

    lines = render.reasons(parts)
    if plan is not None:
        from spectool.report.serve_plan import launch_text

        sys.stderr.write(printable(launch_text(plan, lines)))
        return
    for line in lines:
        sys.stderr.write(f"  {line}\n")
