"""`spectool validate --format ...`: what machines read, byte by byte where it is short.

`SPECTOOL_REWRITE=1` writes the files in `tests/golden/reports` anew; look at the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import spectool
from config_files import ROOT
from mutations import PAIRS, VERIFIER, both, folder, put, with_zeros

GOLDEN = ROOT / "tests" / "golden" / "reports"
FAULTS = both(
    put("rope_parameters.partial_rotary_factor", 0.25),
    put("dflash_config.mask_token_id", 512),
    with_zeros("layers.0.odd, 100%: a\nb", 4),
)
# Few rules, so that a new one elsewhere changes no file here.
OPTIONS = (
    "--select",
    "MSK002,ROP,TEN002,VER002",
    "--ignore",
    "TEN002=left by the exporter",
    "--engine",
    "vllm==0.33.0",
)


@pytest.fixture
def drafter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A faulty drafter below the current directory, so that the files name no machine."""
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    return str(folder(PAIRS / "dflash-zlab", Path("models/faulty"), FAULTS))


def shorn(text: str) -> str:
    """A SARIF log without the descriptions of all rules, which docs/rules.md shows."""
    document: dict[str, Any] = json.loads(text)
    driver = document["runs"][0]["tool"]["driver"]
    numbers = {rule["id"]: rule for rule in driver["rules"]}
    driver["rules"] = [numbers["ROP002"]]
    for item in document["runs"][0]["results"]:
        item["ruleIndex"] = -1
    for item in document["runs"][0]["invocations"][0]["toolExecutionNotifications"]:
        item["associatedRule"]["index"] = -1
    return json.dumps(document, indent=2) + "\n"


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "junit"])
def test_the_whole_output(form: str, drafter: str) -> None:
    outcome = spectool("validate", drafter, *OPTIONS, "--format", form)
    assert (outcome.code, outcome.err) == (1, "")
    text = shorn(outcome.out) if form == "sarif" else outcome.out
    path = GOLDEN / f"faulty.{form}"
    if os.environ.get("SPECTOOL_REWRITE") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "junit"])
def test_no_format_lets_a_name_act(form: str, tmp_path: Path) -> None:
    hostile = "layers.0.\x1b[31m\x9b\u202e\x07odd"
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d\x1b]0;x\x07", with_zeros(hostile, 4))
    outcome = spectool("validate", str(broken), "--verifier", str(VERIFIER), "--format", form)
    assert outcome.code == 1
    assert not set("\x1b\x9b\u202e\x07\r") & set(outcome.out + outcome.err)
    if form == "json":
        assert hostile in json.loads(outcome.out)["findings"][0]["message"]


def test_no_name_writes_a_verdict(tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", with_zeros("layers.0.a\nclean: nothing to report\n", 4))
    for form in ("text", "github"):
        for more in ((), ("--ignore", "TEN002=a\nb", "--fail-on", "never")):
            outcome = spectool("validate", str(broken), "--verifier", str(VERIFIER), "--format", form, *more)
            assert not any(line.startswith("clean") for line in outcome.out.splitlines()[:-1])


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "junit"])
def test_a_name_that_is_no_unicode(form: str, tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / os.fsdecode(b"d\xff"), with_zeros("layers.0.odd", 4))
    outcome = spectool("validate", str(broken), "--format", form)
    assert outcome.code == 1
    outcome.out.encode("utf-8")


@pytest.mark.parametrize("form", ["json", "sarif", "github", "junit"])
def test_clean_is_exit_0_in_every_format(form: str) -> None:
    outcome = spectool("validate", str(PAIRS / "dflash-zlab"), "--verifier", str(VERIFIER), "--format", form)
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize(
    "options", [("--format", "sarif"), ("--format", "github"), ("--format", "junit"), ("--fix",), ("--weights",)]
)
def test_a_range_of_releases_has_text_and_json_only(options: tuple[str, ...]) -> None:
    outcome = spectool("validate", str(PAIRS / "dflash-zlab"), "--engine", "vllm>=0.32", *options)
    assert outcome.code == 2
    assert "speaks about one vLLM release" in outcome.err


def test_what_cannot_be_read_is_no_report() -> None:
    for form in ("json", "sarif", "github", "junit"):
        outcome = spectool("validate", "/nowhere", "--format", form)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith("error: ")


def one_flag(tmp_path: Path) -> str:
    """A drafter whose full layers vLLM makes causal from 0.26 on."""
    convert = ("convert", str(PAIRS / "dflash-zlab"), str(tmp_path / "out"), "--verifier", str(VERIFIER))
    assert spectool(*convert, "--set", "verifier=a/b").code == 0
    change = both(put("sliding_window_non_causal", False), put("transformer_layer_config.is_causal", ...))
    return str(folder(tmp_path / "out", tmp_path / "drafter", change))


@pytest.mark.parametrize(
    ("span", "code", "last"),
    [
        ("vllm>=0.20,<0.26", 0, "from vLLM 0.20.2 on"),
        ("vllm>=0.20", 1, "not with the newest of them; with vLLM 0.20.2 to 0.25.1"),
        ("vllm>=0.25,<0.28", 1, "not with the newest of them; with vLLM 0.25.1"),
        ("vllm>=0.26", 1, "not with any of them"),
    ],
)
def test_a_range_answers_from_which_release_on(span: str, code: int, last: str, tmp_path: Path) -> None:
    outcome = spectool("validate", one_flag(tmp_path), "--verifier", str(VERIFIER), "--engine", span)
    assert (outcome.code, outcome.out.splitlines()[-1]) == (code, last)


def test_selected_rules_vouch_for_themselves_alone(tmp_path: Path) -> None:
    drafter = one_flag(tmp_path)
    some = spectool("validate", drafter, "--verifier", str(VERIFIER), "--select", "ENG")
    assert (some.code, some.out.splitlines()[-1]) == (0, "clean: nothing to report by the rules that were selected")
    good = spectool("validate", str(PAIRS / "dflash-zlab"), "--verifier", str(VERIFIER))
    assert good.out.splitlines()[-1] == "clean: nothing to report"
