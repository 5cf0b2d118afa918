"""SARIF: valid by the official schema whatever a drafter contains, and true of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from config_files import ROOT
from jsonschema import Draft202012Validator
from mutations import NATIVE, PAIRS, VERIFIER, Change, both, folder, nothing, put, with_zeros, without

from spectool import api
from spectool.configuration.selection import make_selection
from spectool.report.sarif import sarif
from spectool.rules.registry import rules

SCHEMA = json.loads((ROOT / "tests" / "data" / "sarif" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
PARTIAL = put("rope_parameters.partial_rotary_factor", 0.25)
HOSTILE = "layers.0.[a](http://x) {0} \x1b[31m\u202e % , : \ud7ff]]>"


def log_of(path: Path, *, verifier: str | None = str(VERIFIER), **options: Any) -> dict[str, Any]:
    log = sarif(api.validate(str(path), verifier=verifier, **options))
    assert [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(log)] == []
    return json.loads(json.dumps(log))["runs"][0]


CASES: dict[str, Change] = {
    "clean": nothing,
    "two sides": PARTIAL,
    "missing tensor": without("norm.weight"),
    "hostile name": with_zeros(HOSTILE, 4),
    "several": both(PARTIAL, put("dflash_config.mask_token_id", 600), without("fc.weight")),
    "no layout": put("architectures", ["Other"]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("verifier", [str(VERIFIER), None])
def test_every_log_fits_the_official_schema(name: str, verifier: str | None, tmp_path: Path) -> None:
    log_of(folder(PAIRS / "dflash-zlab", tmp_path / "d", CASES[name]), verifier=verifier)


def test_the_schema_is_not_blind() -> None:
    assert not VALIDATOR.is_valid({"version": "2.1.0", "runs": [{"tool": {"driver": {}}}]})


def test_rules_come_from_the_registry(tmp_path: Path) -> None:
    run = log_of(PAIRS / NATIVE["dflash"])
    described = run["tool"]["driver"]["rules"]
    assert [item["id"] for item in described] == list(rules())
    for item in described:
        rule = rules()[item["id"]]
        assert item["defaultConfiguration"]["level"] == rule.severity
        assert rule.fix in item["help"]["markdown"]
        assert item["helpUri"].endswith(f"docs/rules.md#{rule.code.lower()}")


def test_a_result_has_both_sides_and_the_line_of_the_key(tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", PARTIAL)
    run = log_of(broken)
    [result] = run["results"]
    assert result["ruleId"] == "ROP002"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "ROP002"
    assert "32 dims" in result["properties"]["trained"]
    assert "8 dims" in result["properties"]["run"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == (broken / "config.json").as_uri()
    row = (broken / "config.json").read_text(encoding="utf-8").splitlines()[place["region"]["startLine"] - 1]
    assert "partial_rotary_factor" in row


def test_a_file_below_the_current_directory_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    folder(PAIRS / "dflash-zlab", Path("a b%:c/d"), PARTIAL)
    uris = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in log_of(Path("a b%:c/d"))["results"]
    }
    assert uris == {"a%20b%25%3Ac/d/config.json"}


def test_in_github_actions_files_are_relative_to_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(PAIRS / "dflash-zlab", tmp_path / "sub" / "d", PARTIAL)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(tmp_path / "sub")
    [result] = log_of(Path("d"))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "sub/d/config.json"


def test_names_make_no_links_and_no_arguments(tmp_path: Path) -> None:
    [result] = log_of(folder(PAIRS / "dflash-zlab", tmp_path / "d", CASES["hostile name"]))["results"]
    assert r"\[a](http://x) {{0}}" in result["message"]["text"]


def test_what_is_ignored_is_suppressed_with_the_reason(tmp_path: Path) -> None:
    selection = make_selection((), {"ROP002": "trained so [by hand](x)"})
    run = log_of(folder(PAIRS / "dflash-zlab", tmp_path / "d", PARTIAL), selection=selection)
    [result] = run["results"]
    expected = {"kind": "external", "status": "accepted", "justification": r"trained so \[by hand](x)"}
    assert result["suppressions"] == [expected]


def test_what_was_not_checked_is_a_notification() -> None:
    run = log_of(PAIRS / NATIVE["dflash"], verifier=None)
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert {item["associatedRule"]["id"] for item in told} >= {"VER001", "VOC001"}
    assert all("--verifier" in item["message"]["text"] for item in told if item["associatedRule"]["id"] == "VOC001")
