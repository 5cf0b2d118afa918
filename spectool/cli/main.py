"""The `spectool` command. Commands import what they need when they are called: `--help` stays quick."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from spectool import __version__
from spectool.cli.command import Command
from spectool.cli.examples import BRIEF, epilog
from spectool.errors import SpectoolError

# Modules of this package, in the order of the help. Each has a `command`, or an `app` with commands of its own.
COMMANDS = ("inspect", "convert", "validate", "serve", "probe", "schema", "rule", "env")
# New objects between two looks for cycles. Modules and headers are 100,000s of objects that all stay: at Python's 700
# a quarter of a command's time went into looking. Weights are bytes, which are freed without a look.
_COLLECT_EVERY = 100_000


def application(*names: str) -> typer.Typer:
    """Return the command line with these of `COMMANDS`, or with all: Typer reads the options of each it is given."""
    app = typer.Typer(
        name="spectool",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for name in names or COMMANDS:
        module = import_module(f"spectool.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, short_help=BRIEF[name])
        else:
            context = getattr(module, "CONTEXT_SETTINGS", None)
            app.command(name, cls=Command, context_settings=context, short_help=BRIEF[name], epilog=epilog(name))(
                module.command
            )
    return app


def _version(show: bool) -> None:
    if show:
        typer.echo(f"spectool {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """From a published parallel drafter (P-EAGLE, DFlash, DSpark) to a vLLM server that provably speculates.

    Start with `spectool inspect DRAFTER`: a folder, or org/name on the Hub.

    Exit codes: 0 clean; 1 findings, or the drafter is refused with a reason; 2 it could not be done.
    """
    from spectool.hub import talk
    from spectool.report.plain import printable

    def say(message: str) -> None:
        sys.stderr.write(printable(message) + "\n")

    talk.listen(say)


def _asked(words: list[str]) -> list[str]:
    """Return the command that the words begin with, if they do."""
    return [word for word in words[:1] if word in COMMANDS]


def main() -> None:
    """Run the command line; the one place where errors become text and exit codes."""
    gc.set_threshold(_COLLECT_EVERY)
    try:
        application(*_asked(sys.argv[1:]))()
    except SpectoolError as error:
        _explain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe went away (`| head`); nothing is wrong with the work.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        # What no part below has words for: a folder that may not be searched, a disk that fails under a look.
        from spectool.errors import CannotRunError

        where = f"{error.filename}: " if error.filename is not None else ""
        _explain(CannotRunError(f"{where}{error.strerror or error}"))
        sys.exit(CannotRunError.exit_code)


def _explain(error: SpectoolError) -> None:
    if os.environ.get("SPECTOOL_DEBUG") == "1":
        raise error
    from spectool.cli.next_step import next_step
    from spectool.report.plain import printable

    code = f" [{error.code}]" if error.code else ""
    sys.stderr.write(printable(f"error{code}: {error.message}\n"))
    if hint := error.hint or next_step(error.message):
        sys.stderr.write(printable(f"hint: {hint}\n"))
