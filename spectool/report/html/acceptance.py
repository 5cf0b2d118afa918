"""Acceptance as a page: each position of a draft, expected against measured, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spectool.report.acceptance import next_steps
from spectool.report.html.charts import position_bars
from spectool.report.html.element import Child, h
from spectool.report.html.page import page, section, table
from spectool.serving.acceptance import Verdict
from spectool.serving.metrics import Snapshot
from spectool.speed.positions import Positions

_CLASSES = {Verdict.GOOD: "good", Verdict.LOW: "warning", Verdict.UNKNOWN: "note"}


@dataclass(frozen=True)
class Measured:
    """What a page shows.

    Attributes:
        title: names what was asked.
        facts: (what, value), in order.
        verdict: one word of it.
        message: the line that says it.
        seen: what was counted; None where nothing was.
        expected: by position, where anything is.
        against: the length it was compared with, with its source; empty where there is none.
        also: further lines, such as whether the output changed.

    """

    title: str
    facts: Sequence[tuple[str, str]]
    verdict: Verdict
    message: str
    seen: Snapshot | None
    expected: Positions | None = None
    against: str = ""
    also: Sequence[str] = field(default_factory=tuple)


def acceptance_html(found: Measured) -> str:
    """Return a measurement as a document."""
    return page(found.title, "spectool probe", _body(found))


def _body(found: Measured) -> Iterator[Child]:
    yield h("p", found.verdict.value, class_=f"verdict {_CLASSES.get(found.verdict, 'error')}", role="status")
    yield h("p", found.message)
    seen = found.seen or Snapshot()
    length = seen.acceptance_length
    rows: list[tuple[Child, ...]] = [(what, value) for what, value in found.facts]
    rows += [
        ("rounds counted", f"{seen.drafts:,}"),
        ("tokens drafted", f"{seen.draft_tokens:,}"),
        ("of them accepted", f"{seen.accepted:,}"),
        (
            "acceptance length",
            "none" if length is None else f"{length:.3f} tokens per round, the verifier's own included",
        ),
        ("compared with", found.against or "nothing"),
    ]
    yield section("What was measured", table("One measurement", ("what", "value"), rows))
    if seen.rates:
        yield from _positions(seen.rates, found.expected)
    if found.also:
        yield section("Also", h("ul", [h("li", line) for line in found.also]))
    steps = next_steps(found.verdict)
    if steps:
        yield section("What to do", h("ul", [h("li", step) for step in steps]))


def _positions(rates: Sequence[float], expected: Positions | None) -> Iterator[Child]:
    spans = expected.spans if expected is not None else ()
    rows: list[tuple[Child, ...]] = []
    for place, rate in enumerate(rates):
        told, judged = "", ""
        if place < len(spans):
            low, high = spans[place]
            told = f"{low:.0%} to {high:.0%}" if f"{low:.0%}" != f"{high:.0%}" else f"{low:.0%}"
            judged = "below" if rate < low else "above" if rate > high else "as expected"
        rows.append((str(place + 1), h("td", f"{rate:.1%}", class_="number"), h("td", told, class_="number"), judged))
    caption = "Share of the rounds in which each position was accepted"
    yield section(
        "Acceptance by position",
        position_bars(caption + (": bars are measured, lines expected" if spans else ""), rates, spans),
        h("p", f"Expected: {expected.basis}.") if expected is not None else None,
        table(caption, ("position", "measured", "expected", "compared"), rows),
    )
