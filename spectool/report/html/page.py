"""The page around a report."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from xml.etree.ElementTree import Element

from spectool import __version__
from spectool.report.html.element import Child, h, markup
from spectool.resources import package_data

# Whatever a report quotes, a browser that opens it loads and runs nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(title: str, kind: str, body: Iterable[Child]) -> str:
    """Return a whole document. `title` is its heading, `kind` says what it is a report of."""
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=POLICY),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="color-scheme", content="light dark"),
        h("meta", name="generator", content=f"spectool {__version__}"),
        h("title", f"{title} - {kind}"),
        h("style", _style()),
    )
    main = h("main", h("p", kind, class_="kind"), h("h1", title), body, id="top")
    foot = h("footer", h("p", f"spectool {__version__}"))
    document = h("html", head, h("body", main, foot), lang="en")
    return "<!DOCTYPE html>\n" + markup(document) + "\n"


def section(heading: str, *children: Child | Iterable[Child], id_: str | None = None) -> Element:
    """Return a section with its heading."""
    return h("section", h("h2", heading), *children, id=id_)


def table(
    caption: str, columns: Iterable[str], rows: Iterable[Iterable[Child | Element]], *, class_: str | None = None
) -> Element:
    """Return a table whose first column names each row. Wide tables scroll by themselves, by keyboard too."""
    body = []
    right: set[int] = set()
    for row in rows:
        first, *others = [
            cell if isinstance(cell, Element) and cell.tag in {"td", "th"} else h("td", cell) for cell in row
        ]
        first.tag = "th"
        first.set("scope", "row")
        right |= {place for place, cell in enumerate(others, 1) if cell.get("class") == "number"}
        body.append(h("tr", first, others))
    named = [h("th", name, scope="col", class_="number" if at in right else None) for at, name in enumerate(columns)]
    head = h("thead", h("tr", named))
    found = h("table", h("caption", caption), head, h("tbody", body), class_=class_)
    return h("div", found, class_="wide", role="region", aria_label=caption, tabindex="0")


@cache
def _style() -> str:
    return package_data("report.css").read_text(encoding="utf-8")
