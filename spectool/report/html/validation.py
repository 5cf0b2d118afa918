"""`validate` as a page: both readings side by side, with the findings in their places."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from spectool.api import Report
from spectool.drafter.compare import unremarkable
from spectool.drafter.model import TITLES
from spectool.report.counts import SEVERITIES, is_clean, summary_text
from spectool.report.html.element import Child, h
from spectool.report.html.findings import card, links
from spectool.report.html.page import page, section, table
from spectool.report.known import lines_about
from spectool.rules.registry import rules


def report_html(report: Report) -> str:
    """Return a report as a document."""
    return page(report.drafter, "spectool validate", _body(report))


def _body(report: Report) -> Iterator[Child]:
    what = f"{TITLES[report.method]}, {report.dialect}" if report.method else "not read"
    yield h("p", f"{what}, for {report.verifier or 'an unknown verifier'}, in vLLM {report.engine}")
    yield h("p", summary_text(report), class_=f"verdict {_worst(report)}", role="status")
    if report.rows:
        yield section("Trained as, run as", _readings(report))
    if report.findings:
        known = rules()
        cards = [card(item, known.get(item.code), number) for number, item in enumerate(report.findings)]
        yield section("Findings", cards)
    if report.unknowns:
        rows = [(h("code", item.code), item.missing) for item in report.unknowns]
        yield section("Not checked", table("Rules that could not be decided", ("rule", "missing fact"), rows))
    if report.assumptions:
        yield section(
            "Assumed",
            table("What the source does not say", ("field", "value", "why"), report.assumptions),
        )
    lines = lines_about(report.published, commit=report.commit) if report.published is not None else []
    if lines:
        yield section("Published", h("ul", [h("li", line) for line in lines]))
    if report.suppressed:
        ignored = [(h("code", item.finding.code), item.finding.message, item.reason) for item in report.suppressed]
        yield section("Ignored", table("Findings that do not count", ("rule", "finding", "reason"), ignored))


def _readings(report: Report) -> Element:
    columns = ("field", "trained as", f"vLLM {report.engine} runs it as", "findings")
    found = table("Field by field", columns, [])
    body = found[0][-1]
    for row in report.rows:
        plain = unremarkable(row.field, row.trained) and row.equal
        noted = links(report.findings, row.field)
        if plain and not noted:
            continue
        same = row.equal and row.run != "-"
        verdict: list[Child] = [] if row.equal else [h("b", "differs"), " "]
        body.append(
            h(
                "tr",
                h("th", row.label, scope="row"),
                h("td", row.trained),
                h("td", "same" if same else row.run, class_="quiet" if same else None),
                h("td", verdict, noted),
                class_=None if row.equal else "differs",
            )
        )
    return found


def _worst(report: Report) -> str:
    if is_clean(report):
        return "good"
    return next(severity for severity in SEVERITIES if any(item.severity == severity for item in report.findings))
