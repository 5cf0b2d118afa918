"""What a newcomer sees: what a folder is fits one terminal of 80 columns, with nothing cut off."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from dialect_fixtures import ALL
from random_weights import write_drafter
from rich.console import Console

from spectool import api
from spectool.drafter.model import TITLES
from spectool.report.plans import print_inspection


@pytest.mark.parametrize("name", sorted(ALL))
def test_what_a_drafter_is_fits_one_screen(name: str, tmp_path: Path) -> None:
    found = api.inspect(str(write_drafter(tmp_path / "drafter", ALL[name], 1)))
    out = io.StringIO()
    print_inspection(found, Console(file=out, width=80, highlight=False))
    lines = out.getvalue().splitlines()
    assert len(lines) <= 26
    assert "…" not in out.getvalue()
    assert found.dialect.file.title in lines[0]
    assert TITLES[found.dialect.file.method] in lines[0]
    assert {line.partition("  ")[0] for line in lines} >= {"attention", "dimensions", "weights", "layout"}
