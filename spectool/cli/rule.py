"""`spectool rule`: what a code means."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    code: Annotated[str, typer.Argument(metavar="list|CODE", help="A rule's code or name, or `list`.")] = "list",
) -> None:
    """Explain a rule, or list them all."""
    import difflib

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
    named = known.get(code.upper()) or next((other for other in known.values() if other.name == code), None)
    if named is None:
        names = [*known, *(other.name for other in known.values()), "list"]
        near = difflib.get_close_matches(code.upper(), known, n=3) or difflib.get_close_matches(code, names, n=3)
        also = f"Near: {', '.join(near)}. " if near else ""
        raise UsageError(f"no rule {code!r}", hint=f"{also}`spectool rule list` shows them all.")
    runs = {"weights": "; with --weights only", "file": "; schema check only"}.get(named.scope, "")
    console.print(f"[bold]{named.code} {named.name}[/] ({named.severity}; {', '.join(named.methods)}{runs})")
    for title, text in (("What", named.summary), ("Why", named.why), ("Fix", named.fix)):
        console.print(f"[bold]{title}[/]  {escape(text)}")
    console.print("[bold]References[/]  " + escape("; ".join(named.references)))
