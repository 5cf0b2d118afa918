"""Write `docs/cli.md`, `docs/configuration.md` and `docs/api.md` from commands, the configuration's model and the API.

python -m spectool.report.cli_page [--check]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from spectool.formats.configuration import Configuration

DOCS = Path(__file__).resolve().parents[2] / "docs"
_NOTE = "<!-- Written by `python -m spectool.report.cli_page`. Do not edit by hand. -->"
_WIDTH = "100"


def pages() -> dict[str, str]:
    """Return the generated pages by file name."""
    from spectool.report import api_page  # noqa: PLC0415 - beside `_commands`, which cannot be imported at the top

    return {"cli.md": _commands(), "configuration.md": _configuration(), "api.md": api_page.text()}


def _commands() -> str:
    from spectool.cli.main import application  # noqa: PLC0415 - nothing else of the package may import cli

    app = application()
    names = [[_name(command)] for command in app.registered_commands]
    for group in app.registered_groups:
        inner = group.typer_instance
        if inner is not None:
            name = str(inner.info.name)
            names.append([name])
            names += [[name, _name(command)] for command in inner.registered_commands]
    lines = ["# Commands", "", _NOTE, "", "What `--help` prints.", "", "```", _help([]), "```"]
    for words in sorted(names):
        lines += ["", f"## spectool {' '.join(words)}", "", "```", _help(words), "```"]
    return "\n".join(lines) + "\n"


def _name(command: Any) -> str:
    """Return a command's name as Typer makes it: its own, or its function's."""
    return str(command.name or command.callback.__name__.rstrip("_").replace("_", "-"))


def _help(words: list[str]) -> str:
    from typer.testing import CliRunner  # noqa: PLC0415 - as above

    from spectool.cli.main import application  # noqa: PLC0415 - as above

    environment = {"COLUMNS": _WIDTH, "TERMINAL_WIDTH": _WIDTH, "NO_COLOR": "1"}
    done = CliRunner(env={**environment, "_TYPER_FORCE_DISABLE_TERMINAL": "1"}).invoke(
        application(), [*words, "--help"], prog_name="spectool", terminal_width=int(_WIDTH)
    )
    if done.exit_code != 0:
        raise RuntimeError(f"spectool {' '.join(words)} --help failed: {done.output}")
    return "\n".join(line.rstrip() for line in done.output.strip().splitlines())


def _configuration() -> str:
    lines = [
        "# Configuration",
        "",
        _NOTE,
        "",
        "`spectool.toml`, or `[tool.spectool]` in `pyproject.toml`: what a project wants of `spectool validate`. It is",
        "searched from the current directory upward, as far as the folder that holds `.git`; in one folder",
        "`spectool.toml` wins. It is never searched from the drafter's folder, so a published drafter cannot silence",
        "its own findings. The command line wins over the file; reasons to ignore are added up.",
        "",
        "| key | what | example |",
        "|---|---|---|",
    ]
    for name, field in Configuration.model_fields.items():
        example = f"`{_toml(field.examples[0])}`" if field.examples else ""
        lines.append(f"| `{field.alias or name}` | {field.description} | {example} |")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            return f'"{value}"'


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` say which are stale; return the exit code."""
    if unknown := [item for item in arguments if item != "--check"]:
        sys.stderr.write(f"error: unknown option {unknown[0]}\n")
        return 2
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    for name in stale:
        sys.stderr.write(f"docs/{name} is not what the program says: run python -m spectool.report.cli_page\n")
    return 1 if stale else 0


if __name__ == "__main__":
    os.environ.pop("FORCE_COLOR", None)
    sys.exit(main(sys.argv[1:]))
