"""`inspect` as a page: what a folder is, and where each value stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectool.api import Inspection
from spectool.catalogue.known import KnownDrafter
from spectool.drafter.compare import LABELS, show, unremarkable
from spectool.drafter.model import TITLES
from spectool.report.html.element import Child, h
from spectool.report.html.page import page, section, table
from spectool.report.known import COLUMNS, heading
from spectool.report.plans import LAYOUTS, size_text


def inspection_html(found: Inspection, published: Sequence[str] = ()) -> str:
    """Return an inspection as a document. `published`: lines about what is known of this drafter."""
    return page(found.view.name, "spectool inspect", _body(found, published))


def known_html(title: str, known: Sequence[KnownDrafter], *, by_size: bool = False) -> str:
    """Return the drafters known for a verifier as a document."""
    rows = [
        (
            item.drafter,
            item.verifier,
            TITLES[item.method],
            item.dialect,
            h("td", "" if item.speculative_tokens is None else str(item.speculative_tokens), class_="number"),
            f"at least {item.min_vllm}" if item.min_vllm else "",
            h("ul", [h("li", str(figure)) for figure in item.acceptance]) if item.acceptance else "",
            item.certainty,
        )
        for item in known
    ]
    count = heading(known, by_size=by_size)
    note = "Layout and vLLM floor as read from quoted files and sources; validate decides."
    body = [h("p", count), section("Known drafters", table(note, COLUMNS, rows)) if rows else None]
    return page(title, "spectool inspect", body)


def _body(found: Inspection, published: Sequence[str]) -> Iterator[Child]:
    reading, file = found.reading, found.dialect.file
    drafter = reading.drafter
    yield h("p", f"{TITLES[file.method]}, {file.title} ", h("code", file.dialect), f"; {LAYOUTS[file.layout]}")
    open_ = len(reading.questions) + len(reading.gaps)
    if open_:
        yield h("p", f"{open_} question{'s' if open_ > 1 else ''} open", class_="verdict warning", role="status")
    rows: list[tuple[Child, ...]] = []
    for field, label in LABELS.items():
        value = show(getattr(drafter, field))
        if not unremarkable(field, value) and field != "method":
            where = reading.evidence[field].where if field in reading.evidence else ""
            rows.append((label, value, h("code", where) if where else ""))
    rows += [
        ("block size", show(drafter.block_size), ""),
        ("K (tokens per pass)", show(drafter.speculative_tokens), ""),
        ("weights", f"{len(found.view.tensors)} tensors, {size_text(found.source.total_bytes)}", ""),
    ]
    yield section("What it is", table("As its trainer means it", ("field", "value", "where it stands"), rows))
    if reading.questions:
        asked = [(h("code", item.key), item.why, ", ".join(map(str, item.plausible))) for item in reading.questions]
        yield section("Open", table("What the source does not say", ("--set", "why", "plausible"), asked))
    if reading.gaps:
        missing = [(item.field, item.kind, item.detail) for item in reading.gaps]
        yield section("Missing", table("What the file must state", ("field", "kind", "detail"), missing))
    if reading.assumptions:
        assumed = [(item.field, item.value, item.why) for item in reading.assumptions]
        yield section("Assumed", table("Taken from a convention", ("field", "value", "why"), assumed))
    placed = reading.placements
    counts = f"{len(placed.placed)} placed, {len(placed.dropped)} dropped, {len(placed.unplaced)} with no place"
    listed = [(h("code", name), why) for name, why in sorted(placed.dropped.items())]
    listed += [(h("code", name), "no place in this dialect") for name in placed.unplaced]
    yield section("Tensors", h("p", counts), table("Not carried over", ("tensor", "why"), listed) if listed else None)
    if published:
        yield section("Published", h("ul", [h("li", line) for line in published]))
