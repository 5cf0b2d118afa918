"""`spectool rule`: what a code means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectool.cli.options import Format, OutputFormat

if TYPE_CHECKING:  # commands stay cheap to import
    from spectool.rules.registry import Rule


def command(
    code: Annotated[str, typer.Argument(metavar="list|CODE", help="A rule's code or name, or `list`.")] = "list",
    format: OutputFormat = Format.text,  # noqa: A002 - the option's name
) -> None:
    """Explain a rule, or list them all."""
    from rich.markup import escape
    from rich.table import Table

    from spectool.cli.output import print_json, stdout
    from spectool.rules.registry import rules

    console, known = stdout(), rules()
    chosen = list(known.values()) if code == "list" else [_named(code)]
    if format is Format.json:
        records = [_record(item) for item in chosen]
        print_json(records if code == "list" else records[0])
        return
    if code == "list":
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("code", "name", "severity", "what"):
            table.add_column(column, overflow="fold")
        for item in known.values():
            table.add_row(item.code, item.name, item.severity, item.summary)
        console.print(table)
        return
    (named,) = chosen
    runs = {"weights": "; with --weights only", "file": "; schema check only"}.get(named.scope, "")
    console.print(f"[bold]{named.code} {named.name}[/] ({named.severity}; {', '.join(named.methods)}{runs})")
    for title, text in (("What", named.summary), ("Why", named.why), ("Fix", named.fix)):
        console.print(f"[bold]{title}[/]  {escape(text)}")
    console.print("[bold]References[/]  " + escape("; ".join(named.references)))


def _named(code: str) -> Rule:
    """Return the rule of a code or name.

    Raises:
        UsageError: there is none; near ones, or those that speak of the word, are named.

    """
    import difflib

    from spectool.errors import UsageError
    from spectool.rules.registry import rules

    known = rules()
    for item in known.values():
        if code.upper() == item.code or code == item.name:
            return item
    names = [*known, *(item.name for item in known.values()), "list"]
    near = difflib.get_close_matches(code.upper(), known, n=3) or difflib.get_close_matches(code, names, n=3)
    near = near or [item.code for item in known.values() if code.lower() in f"{item.name} {item.summary}".lower()][:8]
    also = f"Near: {', '.join(near)}. " if near else ""
    raise UsageError(f"no rule {code!r}", hint=f"{also}`spectool rule list` shows them all.")


def _record(item: Rule) -> dict[str, Any]:
    return {
        "code": item.code,
        "name": item.name,
        "severity": item.severity,
        "methods": list(item.methods),
        "scope": item.scope,
        "what": item.summary,
        "why": item.why,
        "fix": item.fix,
        "references": list(item.references),
    }
