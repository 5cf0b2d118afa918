"""`spectool validate`, `rule` and the root command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import spectool
from mutations import NATIVE, PAIRS, VERIFIER, both, folder, put, without

from spectool.rules.registry import rules


@pytest.mark.parametrize("method", NATIVE)
def test_good_pairs_are_exit_0(method: str) -> None:
    outcome = spectool("validate", str(PAIRS / NATIVE[method]), "--verifier", str(VERIFIER))
    assert outcome.code == 0
    assert "vLLM 0.33.0 runs it as" in outcome.out
    assert outcome.err == ""


def test_a_finding_is_exit_1_and_names_both_sides(tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", put("rope_parameters.partial_rotary_factor", 0.25))
    outcome = spectool("validate", str(broken), "--verifier", str(VERIFIER), "--format", "json")
    finding = json.loads(outcome.out)["findings"][0]
    assert (outcome.code, finding["code"], finding["severity"]) == (1, "ROP002", "error")
    assert "32 dims" in finding["trained"]
    assert "8 dims" in finding["run"]


def test_a_settled_question_is_no_finding(tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", put("rope_parameters.partial_rotary_factor", 0.25))
    answer = ("--set", "rope.partial=0.25")
    assert spectool("validate", str(broken), "--verifier", str(VERIFIER), *answer).code == 0


def test_what_was_settled_at_conversion_stays_settled(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put("is_causal", True))
    out = tmp_path / "out"
    assert spectool("convert", str(source), str(out), "--verifier", str(VERIFIER)).code == 0
    assert spectool("validate", str(out), "--verifier", str(VERIFIER)).code == 0
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config))  # the same values in other bytes: the record is void
    outcome = spectool("validate", str(out), "--verifier", str(VERIFIER))
    assert outcome.code == 1
    assert "ATT001" in outcome.out


def test_fail_on(tmp_path: Path) -> None:
    base = tmp_path / "out"
    spectool("convert", str(PAIRS / "dspark-deepspec"), str(base), "--verifier", str(VERIFIER))
    absent = both(put("enable_confidence_head", ...), put("confidence_head_with_markov", ...))
    warned = str(folder(base, tmp_path / "d", absent))
    codes = {level: spectool("validate", warned, "--verifier", str(VERIFIER), "--fail-on", level).code for level in
             ("error", "warning", "note", "never")}  # fmt: skip
    assert codes == {"error": 0, "warning": 1, "note": 1, "never": 0}


def test_an_unknown_layout_is_a_finding(tmp_path: Path) -> None:
    outcome = spectool("validate", str(VERIFIER))
    assert outcome.code == 1
    assert "CFG001" in outcome.out


def test_no_escape_sequence_of_a_hostile_name_reaches_the_terminal(tmp_path: Path) -> None:
    hostile = "layers.0.\x1b[31mred\x1b[0m"

    def change(config: dict[str, object], tensors: dict[str, object]) -> None:
        tensors[hostile] = ("BF16", (1,), b"\0\0")

    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", change)
    for command in (("validate", str(broken), "--verifier", str(VERIFIER)), ("inspect", str(broken))):
        outcome = spectool(*command)
        assert "\x1b" not in outcome.out + outcome.err


def test_markup_in_names_is_text(tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "[bold]d[nope]", without("norm.weight"))
    outcome = spectool("validate", str(broken), "--verifier", str(VERIFIER))
    assert outcome.code == 1
    assert "[bold]d[nope]" in outcome.out


@pytest.mark.parametrize("code", list(rules()))
def test_every_rule_explains_itself(code: str) -> None:
    outcome = spectool("rule", code)
    item = rules()[code]
    assert outcome.code == 0
    assert item.summary in outcome.out.replace("\n", " ")
    assert all((item.fix, item.why, item.references))


def test_rule_list_is_complete() -> None:
    outcome = spectool("rule", "list")
    assert all(code in outcome.out for code in rules())
    assert spectool("rule", "slot-layout-differs").out.startswith("SLT001")


def test_rules_as_json() -> None:
    listed = json.loads(spectool("rule", "list", "--format", "json").out)
    assert [item["code"] for item in listed] == list(rules())
    one = json.loads(spectool("rule", "att001", "--format", "json").out)
    assert one == next(item for item in listed if item["code"] == "ATT001")
    assert set(one) == {"code", "name", "severity", "methods", "scope", "what", "why", "fix", "references"}


def test_a_word_finds_the_rules_about_it() -> None:
    outcome = spectool("rule", "causality")
    assert (outcome.code, "ATT001" in outcome.err) == (2, True)
    assert "Near" not in spectool("rule", "zzzz").err


def test_help_and_version() -> None:
    assert spectool("--version").out == "spectool 0.1.0\n"
    outcome = spectool("--help")
    assert (outcome.code, all(name in outcome.out for name in ("convert", "validate", "serve", "probe"))) == (0, True)
