"""docs/rules.md is what the registry says."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_files import ROOT

from spectool.report import rules_page
from spectool.report.addresses import rule_url
from spectool.rules.registry import rules


def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    code = rules_page.main(["--check"])
    assert code == 0, capsys.readouterr().out


def test_every_code_has_one_anchor() -> None:
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    for code in rules():
        anchor = rule_url(code).rpartition("#")[2]
        assert text.count(f'<a id="{anchor}"></a>') == 1


def test_check_shows_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "rules.md"
    assert rules_page.main(["--check", str(page)]) == 1
    assert rules_page.main([str(page)]) == 0
    assert rules_page.main(["--check", str(page)]) == 0
    page.write_text(page.read_text(encoding="utf-8").replace("Codes are never", "Codes are often"), encoding="utf-8")
    capsys.readouterr()
    assert rules_page.main(["--check", str(page)]) == 1
    assert "+++ rules" in capsys.readouterr().out
    assert rules_page.main(["--chekc"]) == 2
