"""`spectool rule`: what a code means."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    code: Annotated[str, typer.Argument(metavar="list|CODE", help="A rule's code or name, or `list`.")] = "list",
) -> None:
    """Explain a rule, or list them all."""
    from rich.markup import escape
    from rich.table import Table

    from spectool.cli.output import stdout
    from spectool.errors import UsageError
    from spectool.rules.registry import rules

    console, known = stdout(), rules()
    if code == "list":
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("code", "name", "severity", "what"):
            table.add_column(column)
        for item in known.values():
            table.add_row(item.code, item.name, item.severity, item.summary)
        console.print(table)
        return
    item = known.get(code.upper()) or next((other for other in known.values() if other.name == code), None)  # type: ignore[assignment]  # None is told from a rule below
    if item is None:
        raise UsageError(f"no rule {code!r}", hint="`spectool rule list` shows them all.")
    runs = {"weights": "; with --weights only", "file": "; schema check only"}.get(item.scope, "")
    console.print(f"[bold]{item.code} {item.name}[/] ({item.severity}; {', '.join(item.methods)}{runs})")
    for title, text in (("What", item.summary), ("Why", item.why), ("Fix", item.fix)):
        console.print(f"[bold]{title}[/]  {escape(text)}")
    console.print("[bold]References[/]  " + escape("; ".join(item.references)))
