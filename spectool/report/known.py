"""What the catalogue knows, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spectool.catalogue.known import KnownDrafter
from spectool.drafter.model import TITLES


def print_known(title: str, found: Sequence[KnownDrafter], console: Console) -> None:
    """Print known drafters, one line each, with the acceptance published for them."""
    console.print(f"[bold]{escape(title)}[/]  {len(found)} known drafter{'s' if len(found) != 1 else ''}")
    if not found:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("drafter", "method", "layout", "K", "vLLM", "published tokens per round", "certainty"):
        table.add_column(column, overflow="fold")
    for item in found:
        tokens = "" if item.speculative_tokens is None else str(item.speculative_tokens)
        floor = f">= {item.min_vllm}" if item.min_vllm else ""
        figures = "; ".join(map(str, item.acceptance))
        table.add_row(item.drafter, TITLES[item.method], item.dialect, tokens, floor, figures, item.certainty)
    console.print(table)
    console.print("[dim]layout and vLLM floor as read from quoted files and sources; `validate` decides[/]")


def lines_about(recognised: Sequence[KnownDrafter], others: Sequence[KnownDrafter]) -> list[str]:
    """Say what a folder looks like, what to expect of it, and when its repository holds another drafter as well."""
    lines = []
    for item in recognised:
        revision = f" at {item.revision}" if item.revision else ""
        lines.append(f"looks like {item.drafter}{revision} for {item.verifier}")
        lines += [f"published: {figure} ({figure.source})" for figure in item.acceptance]
    for item in others:
        layers = ", ".join(map(str, item.seen["aux_layers"]))
        lines.append(f"{item.drafter} was also published with aux layers {layers}: pin the revision")
    return lines


def known_json(found: Sequence[KnownDrafter]) -> list[dict[str, Any]]:
    """Return known drafters as JSON data."""
    return [asdict(item) for item in found]
