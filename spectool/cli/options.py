"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """How a result is printed."""

    text = "text"
    json = "json"


class PageFormat(StrEnum):
    """How a result is printed that can be a page as well."""

    text = "text"
    json = "json"
    html = "html"


_DRAFTER = "The drafter: a folder, org/name or org/name@revision."
Source = Annotated[str, typer.Argument(metavar="SOURCE", help=_DRAFTER, show_default=False)]
Drafter = Annotated[str, typer.Argument(metavar="DRAFTER", help=_DRAFTER, show_default=False)]
Verifier = Annotated[
    str | None, typer.Option("--verifier", metavar="V", help="The verifier: a folder, org/name or org/name@revision.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Answer what the source does not say. May be repeated."),
]
From = Annotated[str | None, typer.Option("--from", metavar="DIALECT", help="Take the source for this dialect.")]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="vllm==X", help="The vLLM release to speak about; default: the newest known to spectool."
    ),
]
PageOutput = Annotated[PageFormat, typer.Option("--format", help="How to print the result.")]
OutputFormat = Annotated[Format, typer.Option("--format", help="How to print the result.")]


def _silence(quiet: bool) -> bool:
    if quiet:
        from spectool.hub import talk

        talk.listen(None)
    return quiet


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.", callback=_silence)]


def parse_settings(settings: list[str] | None) -> dict[str, object]:
    """Turn `--set KEY=VALUE` options into typed answers.

    Raises:
        UsageError: one is not KEY=VALUE, its key is unknown, its value does not fit, or a key is given twice.

    """
    from spectool.dialects.sources import parse_setting
    from spectool.errors import UsageError

    answers: dict[str, object] = {}
    for text in settings or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {text}: write KEY=VALUE", hint="For example: --set speculative_tokens=5")
        if key in answers:
            raise UsageError(f"--set {key} is given twice")
        answers[key] = parse_setting(key, value)
    return answers
