"""`make dialects` runs every dialect in vLLM; what it runs is what the row says (here without the engine)."""

from __future__ import annotations

from pathlib import Path

import pytest
from dialect_arms import ARMS, made

from spectool.dialects.catalogue import catalogue

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dialects-engine.md"


def test_every_dialect_has_a_row() -> None:
    assert {item.dialect for item in ARMS.values()} == set(catalogue())


def test_the_page_has_every_row_and_none_that_differs() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith(("| dflash-", "| dspark-", "| peagle-"))]
    assert {row[0].removeprefix("| ") for row in rows} == set(ARMS)
    assert {row[-1].removesuffix(" |") for row in rows} == {"yes"}


@pytest.mark.parametrize("name", ["dflash-zlab unsorted layers", "dspark-speculators 0.9", "peagle-nemo"])
def test_a_row_is_made_of_the_dialect_it_names(name: str, tmp_path: Path) -> None:
    folders = made(ARMS[name], tmp_path)  # which checks it
    assert folders.first.name == ("source" if ARMS[name].canonical is None else "canonical")
    assert folders.kind == ARMS[name].method
