"""`spectool validate`: trained as, run as, and the line that differs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectool.cli.options import Drafter, From, Quiet, Settings, Verifier, parse_settings

if TYPE_CHECKING:  # commands stay cheap to import
    from spectool.api import Report
    from spectool.engine.choice import Choice
    from spectool.rules.registry import Severity


class FailOn(StrEnum):
    """From which severity on the exit code is 1."""

    error = "error"
    warning = "warning"
    note = "note"
    never = "never"


class ReportFormat(StrEnum):
    """How a report is printed."""

    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"
    junit = "junit"
    html = "html"


# Endings of a deployment file; its models are imported where there is one.
_DEPLOYMENT = (".yaml", ".yml", ".toml", ".json")
# What comes after `--` must arrive in `ctx.args`; an unknown option before it stays an error.
CONTEXT_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": False}


def command(
    ctx: typer.Context,
    drafter: Drafter,
    verifier: Verifier = None,
    settings: Settings = None,
    from_: From = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="vllm==X",
            help="The vLLM release to speak about (default: the newest known), `installed`, or a range such as "
            "'vllm>=0.24': from which release on is it right?",
        ),
    ] = None,
    engine_python: Annotated[
        str | None,
        typer.Option(
            "--engine-python",
            metavar="PATH",
            help="Speak about the vLLM of this interpreter; `--engine installed` looks for one (SPECTOOL_ENGINE, else "
            "the vllm on PATH).",
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="CODE[,CODE]", help="Run these rules only; ATT stands for all ATT rules."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="CODE=REASON", help="Do not count a rule's findings. May be repeated."),
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Exit with 1 from this severity on; default: error.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The configuration; default: spectool.toml, or [tool.spectool] in pyproject.toml, from the current "
            "directory up to the repository's root.",
        ),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="First repair a Speculators config.json in place, where that is certain.")
    ] = False,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="NAME:COUNT", help="The GPUs of the coming launch, such as a100-80gb:2: does it fit?"),
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Read the tensors too: NaN, zeros, the vocabulary map, the mask row.")
    ] = False,
    format: Annotated[ReportFormat, typer.Option("--format", help="How to print the result.")] = ReportFormat.text,  # noqa: A002 - the option's name
    quiet: Quiet = False,
) -> None:
    """Check a drafter and its verifier before an engine starts.

    DRAFTER may be a deployment file. Flags after -- are those of the coming `vllm serve`; they are checked as well.
    """
    from spectool import api
    from spectool.cli.output import copying, stderr
    from spectool.configuration.merge import wishes
    from spectool.engine.choice import INSTALLED, choose
    from spectool.engine.facts import releases
    from spectool.errors import UsageError

    answers: dict[str, Any] = parse_settings(settings)
    words = list(ctx.args) or None
    if drafter.endswith(_DEPLOYMENT) and not Path(drafter).is_dir():
        from spectool.deployment import read_deployment, vllm_words

        named = read_deployment(drafter)
        drafter, verifier, gpus = named.drafter, verifier or named.verifier, gpus or named.gpus
        answers = {**{str(key): value for key, value in named.settings.items()}, **answers}
        engine = engine or (named.engine if engine_python is None else None)
        words = [*vllm_words(named.vllm), *(words or [])]
    if engine is None and engine_python is not None:
        engine = INSTALLED  # also against the configuration
    wanted = wishes(config, Path.cwd(), fail_on=fail_on, engine=engine, select=select or (), ignore=ignore or ())
    if wanted.file is not None and not quiet:
        stderr().print(f"configuration: {wanted.file}", markup=False)
    failing = severities_from(FailOn(wanted.fail_on))
    versions = releases(wanted.engine) if wanted.engine else None
    one = "--fix" if fix else "--weights" if weights else None
    if format not in {ReportFormat.text, ReportFormat.json}:
        one = one or f"--format {format.value}"
    if versions is not None and one is not None:
        raise UsageError(
            f"{one} speaks about one vLLM release, not about a range",
            hint="Name one, for example --engine vllm==0.33.0.",
        )
    choices: list[str | Choice] = list(versions) if versions is not None else [choose(wanted.engine, engine_python)]
    if fix:
        answers = _repair(drafter, answers, verifier, choices[0], quiet=quiet)
    with copying("reading weights", quiet=quiet or not weights) as progress:
        reports = [
            api.validate(
                drafter,
                verifier=verifier,
                settings=answers,
                dialect=from_,
                engine=choice,
                selection=wanted.selection,
                weights=weights,
                progress=progress,
                launch=words,
                gpus=gpus,
            )
            for choice in choices
        ]
    good = [not any(finding.severity in failing for finding in report.findings) for report in reports]
    if versions is not None:
        _print_releases(reports, good, format)
    else:
        _print(reports[0], format, failing, quiet=quiet)
        if format is ReportFormat.text and not quiet and reports[0].findings:
            from spectool.cli.repair_hint import tell_repair

            tell_repair(reports[0], answers, verifier)
    if not good[-1]:  # of a range: the newest release, without which there is no "from X on"
        raise typer.Exit(1)


def severities_from(threshold: FailOn) -> tuple[Severity, ...]:
    """Return the severities that reach a threshold."""
    from spectool.report.counts import SEVERITIES

    return () if threshold is FailOn.never else SEVERITIES[: SEVERITIES.index(threshold.value) + 1]


def _repair(
    drafter: str, answers: dict[str, Any], verifier: str | None, choice: str | Choice, *, quiet: bool
) -> dict[str, Any]:
    """Repair a folder's config and say what was done. Return the answers to check it with.

    What a conversion's record settles counts still: the record itself speaks of the file before the repair.
    """
    from spectool.cli.output import stderr
    from spectool.errors import UsageError
    from spectool.loading import RECORD, load_drafter, recorded_answers
    from spectool.upgrade.upgrade import plan_upgrade, write_upgrade

    engine = choice if isinstance(choice, str) else choice.facts.version
    checkpoint, _ = load_drafter(drafter)
    if checkpoint.origin is not None:
        raise UsageError(
            f"{drafter} is a repository, which is not repaired in place",
            hint=f"First: hf download {checkpoint.origin.repo}",
        )
    settled = {**recorded_answers(checkpoint)[0], **answers}
    upgrade = plan_upgrade(checkpoint.root, settings=settled, verifier=verifier, engine=engine)
    write_upgrade(upgrade)
    talk = stderr()
    for repair in upgrade.repairs:
        talk.print(f"repaired {repair.code}: {repair.why}", markup=False)
    if upgrade.repairs and (checkpoint.root / RECORD).is_file():
        talk.print(
            f"{RECORD} speaks of the file before the repair and is void now; spectool-upgrades.json says what changed",
            markup=False,
        )
    if not upgrade.repairs and not quiet:
        talk.print("nothing to repair", markup=False)
    return settled


def _print(report: Report, format: ReportFormat, failing: tuple[Severity, ...], *, quiet: bool) -> None:  # noqa: A002 - the name is given from outside
    from spectool.cli.output import print_json, print_text, stdout

    match format:
        case ReportFormat.text:
            from spectool.report.text import print_report

            print_report(report, stdout(), quiet=quiet)
        case ReportFormat.json:
            from spectool.report.jsonable import report_json

            print_json(report_json(report))
        case ReportFormat.html:
            from spectool.report.html.validation import report_html

            print_text(report_html(report))
        case ReportFormat.sarif:
            from spectool.report.sarif import sarif

            print_json(sarif(report))
        case ReportFormat.github:
            from spectool.report.github import github

            print_text(github(report))
        case ReportFormat.junit:
            from spectool.report.junit import junit

            print_text(junit(report, failing))


def _print_releases(reports: list[Report], good: list[bool], format: ReportFormat) -> None:  # noqa: A002 - the name is given from outside
    from spectool.cli.output import print_json, stdout
    from spectool.report.jsonable import report_json
    from spectool.report.text import print_releases

    if format is ReportFormat.json:
        print_json({"releases": [report_json(report) for report in reports]})
    else:
        print_releases(reports, good, stdout())
