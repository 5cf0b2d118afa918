"""HTML as a tree, so that text from files is text whatever it says.

The standard library's ElementTree does the escaping; nothing here joins strings into markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

from spectool.report.plain import printable

Child = Element | str | None


def h(tag: str, /, *children: Child | Iterable[Child], **attributes: str | None) -> Element:
    """Return an element. An attribute's trailing underscore is dropped and others become hyphens; None leaves it out.

    h("td", "K ", h("b", "7"), class_="number", aria_label="...")
    """
    element = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            element.set(name.rstrip("_").replace("_", "-"), printable(value))
    for child in children:
        if child is None:
            continue
        if isinstance(child, (str, Element)):
            _append(element, child)
            continue
        for item in child:
            if item is not None:
                _append(element, item)
    return element


def _append(parent: Element, child: Element | str) -> None:
    if isinstance(child, Element):
        parent.append(child)
        return
    text = printable(child)
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def markup(element: Element) -> str:
    """Return an element as HTML text."""
    return tostring(element, encoding="unicode", method="html")


def prose(text: str) -> list[Child]:
    """Return text with what stands in `backticks` as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one is left over: nothing is certain
        return [text]
    return [h("code", part) if number % 2 else part for number, part in enumerate(parts) if part]
