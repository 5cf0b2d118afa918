"""GitHub annotations, read back as the runner reads them (actions/runner, ActionCommand.cs)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mutations import PAIRS, VERIFIER, both, folder, put, with_zeros

from spectool import api
from spectool.configuration.selection import make_selection
from spectool.report.github import github

PARTIAL = put("rope_parameters.partial_rotary_factor", 0.25)


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Name, properties and message of every command in a log."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"::(\w+)(?: (.*?))?::(.*)", line)
        if match is None:
            assert not line.lstrip().startswith("::")
            continue
        pairs = dict(part.split("=", 1) for part in (match[2] or "").split(","))
        found.append((match[1], {name: plain(value) for name, value in pairs.items()}, plain(match[3])))
    return found


def plain(text: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_a_finding_is_a_command_with_file_line_and_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    folder(PAIRS / "dflash-zlab", Path("a,b:c%0A"), PARTIAL)
    report = api.validate("a,b:c%0A", verifier=str(VERIFIER))
    [(level, properties, message)] = commands(github(report))
    finding = report.findings[0]
    assert level == "error"
    assert properties == {
        "file": "a,b:c%0A/config.json",
        "line": str(finding.line),
        "title": "ROP002 rope-differs",
    }
    assert message == f"{finding.message}\n{finding.fix}"


@pytest.mark.parametrize("name", ["a\n::error::forged", "a\r\n::error::forged", "x::y,z", "##[error]z", "\x1b[31m"])
def test_names_forge_no_command(name: str, tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", with_zeros(name, 4))
    for selection in (make_selection((), {}), make_selection((), {"TEN002": "known\n::error::forged"})):
        text = github(api.validate(str(broken), verifier=str(VERIFIER), selection=selection))
        assert "\x1b" not in text
        assert "\r" not in text
        told = commands(text)
        assert len(told) == (0 if selection.ignore else 1)


def test_levels_and_what_was_not_checked(tmp_path: Path) -> None:
    base = tmp_path / "out"
    api.convert(api.plan_conversion(str(PAIRS / "dspark-deepspec"), verifier=str(VERIFIER)), base)
    absent = both(put("enable_confidence_head", ...), put("confidence_head_with_markov", ...))
    told = commands(github(api.validate(str(folder(base, tmp_path / "d", absent)))))
    levels = [level for level, *_ in told]
    assert levels == ["warning", "notice", "notice"]
    assert told[-1][1] == {"title": "not checked"}
    assert "VER001: the verifier's architecture (--verifier)" in told[-1][2].splitlines()
