"""What a pipe gets: rows that stay whole, no blanks at their ends; and what the lines under a table say."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote, split

import pytest
from command_line import spectool
from dialect_fixtures import ALL
from mutations import PAIRS, VERIFIER, both, folder, put
from random_weights import write_drafter

DFLASH = str(PAIRS / "dflash-zlab")
ONE_LAYER = both(put("num_hidden_layers", 1), put("layer_types", ["full_attention"]))
VERIFIED = ("--verifier", str(VERIFIER))


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", DFLASH),
        ("inspect", "Qwen/Qwen3-8B"),
        ("validate", DFLASH, *VERIFIED),
        ("validate", DFLASH, *VERIFIED, "--engine", "vllm>=0.32"),
        ("convert", DFLASH, "--dry-run", *VERIFIED),
        ("rule", "list"),
        ("schema", "list"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_line_ends_in_blanks(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    lines = spectool(*words).out.splitlines()
    assert len(lines) > 2
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_row_of_a_table_is_one_line(tmp_path: Path) -> None:
    wide = folder(PAIRS / "dflash-zlab", tmp_path / "d", ONE_LAYER)
    outcome = spectool("validate", str(wide), *VERIFIED)
    (row,) = [line for line in outcome.out.splitlines() if line.startswith("dimensions")]
    assert row.endswith("<-- differs")


def test_colour_that_is_forced_breaks_no_row_and_draws_no_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    wide = folder(PAIRS / "dflash-zlab", tmp_path / "d", ONE_LAYER)
    outcome = spectool("validate", str(wide), *VERIFIED, "--weights")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", outcome.out)
    (row,) = [line for line in plain.splitlines() if line.startswith("dimensions")]
    assert row.endswith("<-- differs")
    assert outcome.err == ""


def test_what_needs_the_verifier_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    alone = [line for line in spectool("validate", DFLASH).out.splitlines() if line.startswith("not checked")]
    assert len(alone) == 1
    assert "AUX001, " in alone[0]
    assert alone[0].endswith("(--verifier FOLDER or org/name)")
    named = spectool("validate", DFLASH, "--verifier", "org/never-fetched").out
    assert "org/never-fetched was not fetched before, and HF_HUB_OFFLINE is set" in named
    assert "(--verifier" not in named


def test_a_verifier_without_weights_is_not_called_unread(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((VERIFIER / "config.json").read_bytes())
    out = spectool("validate", DFLASH, "--verifier", str(tmp_path)).out
    assert "not checked VER004: the verifier's tensor names (--verifier FOLDER with weights)" in out


def test_a_finding_of_both_sides_of_a_conversion_is_said_once(tmp_path: Path) -> None:
    verifier = folder(VERIFIER, tmp_path / "verifier", put("rope_parameters.rope_theta", 1000000))
    out = spectool("convert", DFLASH, "--dry-run", "--verifier", str(verifier)).out
    assert out.count("ROP003") == 1
    assert "rope_theta is 10000, verifier's is 1000000" in out


def test_inspect_names_the_next_command(tmp_path: Path) -> None:
    outcome = spectool("inspect", DFLASH)
    drafter, verifier = quote(DFLASH), quote(str(VERIFIER))
    assert outcome.err == f"next: spectool validate {drafter} --verifier VERIFIER\n"
    assert spectool("inspect", DFLASH, *VERIFIED).err == f"next: spectool validate {drafter} --verifier {verifier}\n"
    foreign = str(write_drafter(tmp_path / "for eign", ALL["dflash-torchspec"], 1))
    assert spectool("inspect", foreign).err == f"next: spectool convert {quote(foreign)} OUT --verifier VERIFIER\n"


def test_what_is_missing_stands_in_its_row(tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", put("dflash_config.target_layer_ids", ...))
    rows = spectool("inspect", str(broken)).out.splitlines()
    assert [row.split()[-1] for row in rows if row.startswith("aux layers")] == ["missing"]
    good = spectool("inspect", DFLASH).out
    assert "missing" not in good


def test_validate_names_the_command_that_repairs(tmp_path: Path) -> None:
    converted = tmp_path / "converted"
    assert spectool("convert", DFLASH, str(converted), *VERIFIED).code == 0
    tokens = "speculators_config.proposal_methods.0.speculative_tokens"
    early = folder(converted, tmp_path / "early one", put(tokens, 8))
    outcome = spectool("validate", str(early), *VERIFIED)
    command, _, codes = outcome.err.removeprefix("next: ").strip().partition("  ")
    assert codes == "(repairs SLT002)"
    assert "Lower speculative_tokens to 7." in outcome.out
    assert spectool(*split(command)[1:]).code == 0
    again = spectool("validate", str(early), *VERIFIED)
    assert (again.code, again.err) == (0, "")


@pytest.mark.parametrize("words", [("--quiet",), ("--format", "json"), ("--engine", "vllm>=0.32")])
def test_the_repair_is_talk(words: tuple[str, ...], tmp_path: Path) -> None:
    converted = tmp_path / "converted"
    assert spectool("convert", DFLASH, str(converted), *VERIFIED).code == 0
    early = folder(converted, tmp_path / "d", put("speculators_config.proposal_methods.0.speculative_tokens", 8))
    outcome = spectool("validate", str(early), *VERIFIED, *words)
    assert (outcome.code, outcome.err) == (1, "")


def test_no_repair_is_named_for_what_none_answers(tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", put("dflash_config.mask_token_id", 512))
    assert spectool("validate", str(broken), *VERIFIED).err == ""


def test_a_verifier_that_drafts_itself_says_how(tmp_path: Path) -> None:
    whole = folder(VERIFIER, tmp_path / "whole", put("dspark_block_size", 5))
    outcome = spectool("inspect", str(whole))
    assert (outcome.code, "a whole model, so a verifier" in outcome.out) == (0, True)
    assert f"DSpark weights of its own (DeepSeek-V4): vllm serve {whole} --speculative-config" in outcome.out
    assert "of its own" not in spectool("inspect", str(VERIFIER)).out


def test_a_plan_says_what_would_be_written() -> None:
    out = spectool("convert", DFLASH, "--dry-run", *VERIFIED).out
    assert out.splitlines()[-1] == "nothing written: 25 tensors, 689.9 kB, K 7"
