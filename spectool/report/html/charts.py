"""Drawings as SVG. Each has a name for screen readers; the figures themselves stand in a table beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from spectool.report.html.element import Child, h

_WIDTH, _LEFT = 900, 210
_LABEL = 40  # the least width of a bar with words below it
COLOURS = ("f1", "f2", "f3", "f4", "f5", "f6")
SPARE = "spare"


@dataclass(frozen=True, slots=True)
class Span:
    """One line of a range chart: from `low` to `high`, its middle, and what was measured, if anything was.

    Without `predicted` there is no range, only what was measured, at which the three then stand.
    """

    label: str
    low: float
    middle: float
    high: float
    measured: float | None = None
    predicted: bool = True

    @property
    def said(self) -> str:
        """The range and the measured value in words."""
        found = [f"{self.low:.2f} to {self.high:.2f}"] if self.predicted else []
        found += [] if self.measured is None else [f"measured {self.measured:.2f}"]
        return ", ".join(found) + ("" if self.predicted else ", not predicted")


def stacked_bar(caption: str, parts: Sequence[tuple[str, float, str]], unit: str) -> Element:
    """Draw parts of a whole side by side; a legend names them. A part is (label, value >= 0, colour class)."""
    total = sum(value for _, value, _ in parts) or 1.0
    drawing: list[Child] = []
    at = 0.0
    for label, value, colour in parts:
        width = _WIDTH * value / total
        block = h("rect", h("title", f"{label}: {value:.2f} {unit}"), x=f"{at:.1f}", y="0", height="46", class_=colour)
        block.set("width", f"{max(width, 0.5):.1f}")
        drawing.append(block)
        at += width
    legend = h(
        "ul",
        [
            h("li", h("span", "", class_=f"swatch {colour}"), f"{label} ({value:.2f} {unit})")
            for label, value, colour in parts
        ],
        class_="legend",
    )
    said = ", ".join(f"{label} {value:.2f} {unit}" for label, value, _ in parts)
    return h("figure", _svg(f"{caption}: {said}", 46, drawing), h("figcaption", caption), legend)


def range_chart(caption: str, spans: Sequence[Span], *, start: float, unit: str, mark: float | None = None) -> Element:
    """Draw one horizontal range a line, from `start` on; `mark` is a value all are to be compared with."""
    end = max([span.high for span in spans] + [span.measured or start for span in spans] + [mark or start])
    # Room for the words behind the longest line.
    words = 250 if any(span.measured is not None for span in spans) else 110
    scale = (_WIDTH - _LEFT - words) / ((end - start) or 1.0)

    def place(value: float) -> float:
        return _LEFT + max(value - start, 0.0) * scale

    drawing: list[Child] = []
    height = 34 * len(spans) + 24
    if mark is not None:
        drawing.append(_line(place(mark), 0, place(mark), height - 20))
        drawing.append(_text(place(mark), height - 4, f"{mark:g} {unit}", anchor="middle", class_="quiet"))
    for number, span in enumerate(spans):
        y = 34 * number
        drawing.append(_text(0, y + 20, span.label))
        if span.predicted:
            said = f"{span.label}: {span.low:.2f} to {span.high:.2f} {unit}"
            bar = h("rect", h("title", said), x=f"{place(span.low):.1f}", y=str(y + 6), height="20", class_="f1")
            bar.set("width", f"{max(place(span.high) - place(span.low), 2):.1f}")
            drawing.append(bar)
            drawing.append(_line(place(span.middle), y + 3, place(span.middle), y + 29, class_="edge"))
        drawing.append(_text(place(max(span.high, span.measured or span.high)) + 12, y + 21, span.said, class_="quiet"))
        if span.measured is not None:
            dot = h(
                "circle", h("title", f"measured {span.measured:.2f} {unit}"), cy=str(y + 16), r="6", class_="measured"
            )
            dot.set("cx", f"{place(span.measured):.1f}")
            drawing.append(dot)
    said = "; ".join(f"{span.label} {span.said}" for span in spans)
    return h("figure", _readable(caption, _svg(f"{caption}: {said}", height, drawing)), h("figcaption", caption))


def position_bars(caption: str, measured: Sequence[float], expected: Sequence[tuple[float, float]] = ()) -> Element:
    """Draw a share (0 to 1) for each position of a block; where one is expected, an I marks the span on its bar."""
    count = max(len(measured), 1)
    step = min(90.0, (_WIDTH - 60) / count)
    gap = min(16.0, step / 3)
    drawing: list[Child] = [_line(40, 160, 40 + step * count, 160)]
    for number, share in enumerate(measured):
        x, tall = 48 + step * number, 140 * min(max(share, 0.0), 1.0)
        bar = h(
            "rect", h("title", f"position {number + 1}: {share:.0%}"), x=f"{x:.1f}", y=f"{160 - tall:.1f}", class_="f1"
        )
        bar.set("width", f"{step - gap:.1f}")
        bar.set("height", f"{tall:.1f}")
        drawing.append(bar)
        middle = x + (step - gap) / 2
        if step > _LABEL:  # the table beside it has them all
            drawing.append(_text(middle, 178, f"{share:.0%}", anchor="middle"))
            drawing.append(_text(middle, 196, str(number + 1), anchor="middle", class_="quiet"))
        if number < len(expected):
            low, high = (160 - 140 * min(max(end, 0.0), 1.0) for end in expected[number])
            half = (step - gap) / 4
            drawing += [_line(middle - half, y, middle + half, y, class_="edge") for y in dict.fromkeys((low, high))]
            if low != high:
                drawing.append(_line(middle, low, middle, high, class_="edge"))
    said = ", ".join(
        f"position {number + 1} {share:.0%}"
        + (" (expected {:.0%} to {:.0%})".format(*expected[number]) if number < len(expected) else "")
        for number, share in enumerate(measured)
    )
    return h("figure", _readable(caption, _svg(f"{caption}: {said}", 204, drawing)), h("figcaption", caption))


def _readable(caption: str, drawing: Element) -> Element:
    """Keep words in a drawing readable on a phone: it scrolls there, by keyboard too, instead of shrinking."""
    return h("div", drawing, class_="wide drawn", role="group", aria_label=caption, tabindex="0")


def _svg(name: str, height: float, drawing: Sequence[Child]) -> Element:
    return h("svg", drawing, viewBox=f"0 0 {_WIDTH} {height:g}", role="img", aria_label=name)


def _text(x: float, y: float, text: str, *, anchor: str | None = None, class_: str | None = None) -> Element:
    return h("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def _line(x1: float, y1: float, x2: float, y2: float, *, class_: str = "axis") -> Element:
    return h("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=class_)
