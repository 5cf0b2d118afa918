"""Reports as HTML: what they say, and that nothing a file says becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from mutations import PAIRS, VERIFIER, both, folder, put

from spectool import api
from spectool.report.html.charts import Span, position_bars, range_chart, stacked_bar
from spectool.report.html.element import h, markup, prose
from spectool.report.html.findings import FIELDS, field_of
from spectool.report.html.inspection import inspection_html
from spectool.report.html.validation import report_html
from spectool.rules.registry import rules


class Page(HTMLParser):
    """The tags of a document, its ids and its links to itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src"}:
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    change = both(put("rope_parameters.partial_rotary_factor", 0.25), put("dflash_config.mask_token_id", 600))
    return folder(PAIRS / "dflash-zlab", tmp_path_factory.mktemp("html") / "d", change)


def test_a_difference_stands_in_its_line_and_links_to_its_finding(broken: Path) -> None:
    page = report_html(api.validate(str(broken), verifier=str(VERIFIER)))
    row = page[page.index(">rope<") : page.index("</tr>", page.index(">rope<"))]
    assert "default, theta 10000, 32 dims rotated" in row
    assert "default, theta 10000, 8 dims rotated" in row
    assert "<b>differs</b>" in row
    assert ">ROP002</a>" in row
    mask = page[page.index(">mask token<") : page.index("</tr>", page.index(">mask token<"))]
    assert ">MSK002</a>" in mask
    assert "differs" not in mask
    read = Page(page)
    assert len(set(read.ids)) == len(read.ids)
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(read.ids)


def test_a_clean_pair_says_so() -> None:
    page = report_html(api.validate(str(PAIRS / "dflash-zlab"), verifier=str(VERIFIER)))
    assert 'class="verdict good"' in page
    assert "differs" not in page.partition("</style>")[2]


def test_nothing_is_loaded_from_elsewhere(broken: Path) -> None:
    found = api.inspect(str(broken), verifier=str(VERIFIER))
    for text in (report_html(api.validate(str(broken))), inspection_html(found, ["known as <x>"])):
        page = Page(text)
        assert not {"script", "img", "link", "iframe", "object", "form"} & set(page.tags)
        assert all(link.startswith(("#", "https://github.com/spectool/")) for link in page.links)
        assert "default-src 'none'" in text


@pytest.mark.parametrize("text", ["</style><script>alert(1)</script>", '"><img src=x onerror=y>', "\x1b[31mred\x00"])
def test_text_from_a_file_stays_text(text: str, tmp_path: Path) -> None:
    d = folder(PAIRS / "dflash-zlab", tmp_path / "d", put("rope_parameters.rope_type", text))
    page = report_html(api.validate(str(d), verifier=str(VERIFIER)))
    read = Page(page)
    assert not {"script", "img"} & set(read.tags)
    assert text.replace("\x1b", "\\x1b").replace("\x00", "\\x00") in "".join(read.words)


def test_elements() -> None:
    assert markup(h("td", "a < b", h("b", "&"), " c", class_="x", aria_label='"', id=None)) == (
        '<td class="x" aria-label="&quot;">a &lt; b<b>&amp;</b> c</td>'
    )
    assert markup(h("p", prose("run `a b` now"))) == "<p>run <code>a b</code> now</p>"
    assert markup(h("p", prose("one ` alone"))) == "<p>one ` alone</p>"


def test_every_code_in_the_table_of_lines_is_one_of_a_rule() -> None:
    for code in FIELDS:
        assert any(known.startswith(code) for known in rules()), code
    assert field_of("AUX005") == "aux_layers"
    assert field_of("BIA001") == "attention_bias"
    assert field_of("TEN001") is None


def test_a_range_chart_is_true_to_scale() -> None:
    spans = [Span("one", 1.0, 1.5, 2.0), Span("two", 0.5, 1.0, 1.5, measured=1.25)]
    chart = range_chart("speed", spans, start=0.0, unit="x", mark=1.0)
    bars = list(chart.iter("rect"))
    left, wide = ([float(bar.get(name) or 0) for bar in bars] for name in ("x", "width"))
    assert wide[0] == pytest.approx(wide[1], abs=0.2)  # both are 1.0 wide
    assert left[0] - left[1] == pytest.approx(wide[0] / 2, abs=0.2)
    dot = next(chart.iter("circle"))
    assert float(dot.get("cx") or 0) == pytest.approx(left[1] + 0.75 * wide[1], abs=0.2)
    assert "two 0.50 to 1.50, measured 1.25" in (next(chart.iter("svg")).get("aria-label") or "")


def test_parts_of_a_bar_add_up() -> None:
    chart = stacked_bar("memory", [("weights", 30.0, "f1"), ("rest", 10.0, "spare")], "GiB")
    widths = [float(bar.get("width") or 0) for bar in chart.iter("rect")]
    assert widths == pytest.approx([675.0, 225.0])


@pytest.mark.parametrize(("count", "labels"), [(7, 14), (21, 0), (255, 0)])
def test_any_number_of_positions_fits(count: int, labels: int) -> None:
    chart = position_bars("acceptance", [0.5] * count, [(0.25, 0.75)] * count)
    bars = list(chart.iter("rect"))
    assert all(float(bar.get("width") or 0) > 0 for bar in bars)
    assert float(bars[-1].get("x") or 0) + float(bars[-1].get("width") or 0) <= 900
    assert sum(1 for _ in chart.iter("text")) == labels


def test_shares_outside_of_0_to_1_stay_in_the_picture() -> None:
    chart = position_bars("acceptance", [1.2, -0.1], [(0.5, 0.5)])
    assert [float(bar.get("height") or 0) for bar in chart.iter("rect")] == [140.0, 0.0]
