"""What the catalogue knows, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spectool.catalogue.known import Acceptance, KnownDrafter, Published
from spectool.drafter.model import TITLES
from spectool.formats.verifier import VerifierView

COLUMNS = ("drafter", "verifier", "method", "layout", "K", "vLLM", "published tokens per round", "certainty")


def heading(found: Sequence[KnownDrafter], *, by_size: bool) -> str:
    """Say how many there are, and that they are not known for this very verifier where only its sizes agree."""
    count = f"{len(found)} known drafter{'s' if len(found) != 1 else ''}"
    return f"{count} for verifiers of these sizes" if by_size and found else count


def print_known(
    title: str,
    found: Sequence[KnownDrafter],
    console: Console,
    *,
    by_size: bool = False,
    verifier: VerifierView | None = None,
) -> None:
    """Print known drafters, one line each, with the acceptance published for them, and what the verifier is."""
    console.print(f"[bold]{escape(title)}[/]  {heading(found, by_size=by_size)}")
    if verifier is not None:
        kind = ", ".join(verifier.architectures) or verifier.model_type or "no architecture"
        console.print(
            f"a whole model, so a verifier: {escape(kind)}, {verifier.num_hidden_layers} layers, "
            f"hidden {verifier.hidden_size}, vocabulary {verifier.vocab_size}"
        )
    if not found:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for item in found:
        tokens = "" if item.speculative_tokens is None else str(item.speculative_tokens)
        floor = f">= {item.min_vllm}" if item.min_vllm else ""
        figures = "; ".join(map(str, item.acceptance))
        method = TITLES[item.method]
        table.add_row(item.drafter, item.verifier, method, item.dialect, tokens, floor, figures, item.certainty)
    console.print(table)
    console.print("[dim]layout and vLLM floor as read from quoted files and sources; `validate` decides[/]")


def lines_about(known: Published, *, commit: str | None = None) -> list[str]:
    """Say what a folder looks like, what to expect of it, and when its repository holds another drafter as well.

    Args:
        known: what the catalogue says of it.
        commit: of the Hub repository it was read from.

    """
    lines = []
    for item in known.looks_like:
        seen = f" at commit {item.revision[:8]}" if item.revision else ""
        lines.append(f"looks like {item.drafter} for {item.verifier} ({item.certainty}{seen})")
        lines += _figures(item.acceptance)
    if known.commit == "known":
        lines.append(f"commit {(commit or '')[:8]} is one that was seen: what was published is about it")
    elif known.commit == "another":
        lines.append(
            f"commit {(commit or '')[:8]} is not the one that was seen: what was published may be about another"
        )
    for item in known.others:
        layers = ", ".join(map(str, item.seen["aux_layers"]))
        lines.append(f"{item.drafter} was also published with aux layers {layers}: pin the revision")
    return lines


def _figures(published: Sequence[Acceptance]) -> list[str]:
    """Say what was published, a line for each source and K."""
    by_source: dict[tuple[int, str], list[str]] = {}
    for figure in published:
        by_source.setdefault((figure.speculative_tokens, figure.source), []).append(figure.spread)
    return [
        f"published tokens per round at K {tokens}: {', '.join(spreads)} ({source})"
        for (tokens, source), spreads in by_source.items()
    ]


def known_json(found: Sequence[KnownDrafter]) -> list[dict[str, Any]]:
    """Return known drafters as JSON data."""
    return [asdict(item) for item in found]


def published_json(about: Published) -> dict[str, Any]:
    """Return what was published about a drafter as JSON data."""
    return {
        "known": known_json(about.looks_like),
        "republished": known_json(about.others),
        "commit": about.commit,
    }
