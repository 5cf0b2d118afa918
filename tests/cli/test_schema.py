"""`spectool schema`: what goes where, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import spectool
from config_files import DATA, ROOT, files

GOOD = DATA / "good" / "speculators-0.9.0-dspark" / "config.json"
BAD = DATA / "bad" / "SLT003-anchor-flag-contradicts-tokens" / "config.json"
OTHER = DATA / "others" / "Qwen--Qwen3-8B" / "config.json"
ODD = DATA / "odd" / "HED003-confidence-flags-missing" / "config.json"


def test_list_names_every_file() -> None:
    listed = json.loads(spectool("schema", "list", "--format", "json").out)
    assert {f"{item['name']}.schema.json" for item in listed} == {path.name for path in (ROOT / "schemas").iterdir()}
    text = spectool("schema", "list")
    assert text.code == 0
    assert "deployment" in text.out


def test_show_prints_the_file() -> None:
    assert spectool("schema", "show", "plan").out == (ROOT / "schemas" / "plan.schema.json").read_text()
    unknown = spectool("schema", "show", "plam")
    assert (unknown.code, unknown.out) == (2, "")
    assert "Known schemas: speculators-config" in unknown.err


def test_export_writes_all(tmp_path: Path) -> None:
    assert spectool("schema", "export", str(tmp_path / "new")).code == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {path.name for path in (ROOT / "schemas").iterdir()}
    (tmp_path / "file").write_text("")
    assert spectool("schema", "export", str(tmp_path / "file")).code == 2


def test_clean_file_prints_nothing_to_standard_output() -> None:
    outcome = spectool("schema", "check", str(GOOD))
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == "1 file: 1 clean\n"
    assert spectool("schema", "check", "-q", str(GOOD)).err == ""


def test_finding_has_file_line_code_and_advice() -> None:
    outcome = spectool("schema", "check", str(BAD))
    assert outcome.code == 1
    first, advice = outcome.out.splitlines()
    assert first == (f"{BAD}:22: error SLT003 sample_from_anchor is false, so a block of 8 holds 7 tokens, not 8")
    assert "lower speculative_tokens by one" in advice


def test_findings_as_json() -> None:
    outcome = spectool("schema", "check", "--format", "json", str(GOOD), str(BAD), str(OTHER))
    assert outcome.code == 1
    good, bad, other = json.loads(outcome.out)["files"]
    assert (good["status"], bad["status"], other["status"]) == ("clean", "findings", "passed over")
    (finding,) = bad["findings"]
    assert (finding["key"], finding["line"], finding["code"]) == ("sample_from_anchor", 22, "SLT003")


def test_other_models_are_named_only_when_asked() -> None:
    assert "Qwen" not in spectool("schema", "check", str(OTHER)).err
    outcome = spectool("schema", "check", "-v", str(OTHER))
    assert (outcome.code, outcome.out) == (0, "")
    assert "passed over, a config of another model" in outcome.err


def test_unreadable_file_is_2_whatever_else_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "config.json"
    broken.write_text('{"speculators_model_type": "dflash",\n}')
    outcome = spectool("schema", "check", str(BAD), str(broken))
    assert outcome.code == 2
    assert f"{broken}: not valid JSON at line 2" in outcome.err
    assert "SLT003" in outcome.out
    assert spectool("schema", "check", str(tmp_path / "none")).code == 2
    assert spectool("schema", "check").code == 2
    assert spectool("schema", "check", "--kind", "poem", str(GOOD)).code == 2


def test_threshold() -> None:
    assert spectool("schema", "check", str(ODD)).code == 0
    assert spectool("schema", "check", "--fail-on", "warning", str(ODD)).code == 1
    assert spectool("schema", "check", "--fail-on", "never", str(BAD)).code == 0


def test_answers() -> None:
    path = str(DATA / "bad" / "ATT001-full-layers-made-causal" / "config.json")
    assert spectool("schema", "check", path).code == 1
    assert spectool("schema", "check", "--set", "causal=true", path).code == 0


def test_all_files_in_one_go() -> None:
    outcome = spectool("schema", "check", *map(str, [*files("good"), *files("others"), *files("odd")]))
    assert outcome.code == 0
    outcome = spectool("schema", "check", *map(str, files("bad")))
    assert outcome.code == 1
    assert all(str(path) in outcome.out for path in files("bad"))


def test_example_configuration_for_pre_commit_names_our_hooks() -> None:
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text()
    example = (ROOT / "examples" / "pre-commit" / "pre-commit-config.yaml").read_text()
    for name in ("spectool-config", "spectool-deployment", "spectool-dialect"):
        assert f"id: {name}\n" in hooks
        assert f"id: {name}\n" in example
