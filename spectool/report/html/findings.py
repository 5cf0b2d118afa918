"""Findings as cards, and where in the comparison they belong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from spectool.report.addresses import rule_url
from spectool.report.html.element import h, prose
from spectool.rules.registry import Finding, Rule

# Code, or its family -> the line of the comparison it speaks about.
FIELDS: Mapping[str, str] = {
    "ATT": "attention",
    "AUX": "aux_layers",
    "BIA001": "attention_bias",
    "HED001": "markov",
    "HED002": "markov",
    "HED003": "confidence",
    "HED004": "markov",
    "HED005": "confidence",
    "LAY": "dimensions",
    "MSK": "mask_token_id",
    "ROP": "rope",
    "SLT": "slots",
    "VOC": "dimensions",
}


def field_of(code: str) -> str | None:
    """Return the field of `Drafter` that a rule speaks about, where it is one line of the comparison."""
    return FIELDS.get(code) or FIELDS.get(code[:3])


def card(finding: Finding, rule: Rule | None, number: int) -> Element:
    """Return a finding with its cause and what to do. `number` makes its anchor."""
    place = None
    if finding.file is not None:
        line = f", line {finding.line}" if finding.line else ""
        key = f" ({finding.key})" if finding.key else ""
        place = h("p", h("span", "Where: ", class_="quiet"), h("code", f"{finding.file}{line}{key}"))
    why = None
    if rule is not None:
        why = h("details", h("summary", f"Why {finding.code} matters"), h("p", prose(rule.why)))
    return h(
        "article",
        h(
            "h3",
            h("span", finding.severity, class_=f"severity {finding.severity}"),
            " ",
            h("a", finding.code, href=rule_url(finding.code)),
            " ",
            h("span", finding.name, class_="quiet"),
        ),
        h("p", prose(finding.message)),
        place,
        h("p", h("span", "To do: ", class_="quiet"), prose(finding.fix)),
        why,
        class_=f"finding {finding.severity}",
        id=anchor(number),
    )


def anchor(number: int) -> str:
    """Return the id of the card of the n-th finding."""
    return f"finding-{number}"


def links(findings: Sequence[Finding], field: str) -> list[Element | str]:
    """Return links to the cards of what is found about one line of the comparison."""
    found: list[Element | str] = []
    for number, finding in enumerate(findings):
        if field_of(finding.code) == field:
            found += [" " if found else "", h("a", finding.code, href=f"#{anchor(number)}")]
    return found
