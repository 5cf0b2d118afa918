"""`validate --fix`: repair, say what was done, and check what is there then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import spectool
from mutations import PAIRS, VERIFIER, both, folder, put

TOKENS = "speculators_config.proposal_methods.0.speculative_tokens"


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fix") / "dflash"
    answer = ("--set", "verifier=spectool/tiny-verifier")
    assert spectool("convert", str(PAIRS / "dflash-zlab"), str(out), "--verifier", str(VERIFIER), *answer).code == 0
    return out


def test_repairs_and_checks_the_result(converted: Path, tmp_path: Path) -> None:
    broken = folder(converted, tmp_path / "d", put(TOKENS, 8))
    options = ("--verifier", str(VERIFIER))
    assert spectool("validate", str(broken), *options).code == 1
    outcome = spectool("validate", str(broken), *options, "--fix")
    assert outcome.code == 0
    assert outcome.err.startswith("repaired SLT002: ")
    assert outcome.out.splitlines()[-1] == "clean: nothing to report"
    assert (broken / "spectool-upgrades.json").is_file()
    again = spectool("validate", str(broken), *options, "--fix")
    assert (again.code, again.err) == (0, "nothing to repair\n")


def test_what_no_repair_answers_stays_a_finding(converted: Path, tmp_path: Path) -> None:
    broken = folder(converted, tmp_path / "d", both(put(TOKENS, 8), put("mask_token_id", 512)))
    outcome = spectool("validate", str(broken), "--verifier", str(VERIFIER), "--fix", "--format", "json")
    assert outcome.code == 1
    assert [item["code"] for item in json.loads(outcome.out)["findings"]] == ["MSK002"]
    assert "repaired SLT002" in outcome.err


def test_a_good_folder_is_left_alone(converted: Path, tmp_path: Path) -> None:
    good = folder(converted, tmp_path / "d", both())
    before = (good / "config.json").read_bytes()
    assert spectool("validate", str(good), "--verifier", str(VERIFIER), "--fix").code == 0
    assert (good / "config.json").read_bytes() == before
    assert not (good / "spectool-upgrades.json").exists()


@pytest.mark.parametrize("name", ["dflash-zlab", "dspark-deepspec", "peagle-native"])
def test_other_layouts_are_to_be_converted(name: str, tmp_path: Path) -> None:
    native = folder(PAIRS / name, tmp_path / "d", both())
    outcome = spectool("validate", str(native), "--verifier", str(VERIFIER), "--fix")
    assert (outcome.code, outcome.out) == (2, "")
    assert "no Speculators config" in outcome.err
    assert "spectool convert" in outcome.err


def test_what_the_conversion_settled_is_not_repaired_away(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put("is_causal", True))
    out = tmp_path / "out"
    assert spectool("convert", str(source), str(out), "--verifier", str(VERIFIER)).code == 0
    before = (out / "config.json").read_bytes()
    assert spectool("validate", str(out), "--verifier", str(VERIFIER), "--fix").code == 0
    assert (out / "config.json").read_bytes() == before


def test_a_conversion_record_that_the_repair_makes_void_is_named(converted: Path, tmp_path: Path) -> None:
    broken = folder(converted, tmp_path / "d", put(TOKENS, 8))
    (broken / "provenance.json").write_bytes((converted / "provenance.json").read_bytes())
    outcome = spectool("validate", str(broken), "--verifier", str(VERIFIER), "--fix")
    assert "provenance.json speaks of the file before the repair and is void now" in outcome.err
    assert "void" not in spectool("validate", str(broken), "--verifier", str(VERIFIER), "--fix").err
