"""`--select`, `--ignore`, `--fail-on`, and the configuration file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Outcome, spectool
from mutations import PAIRS, VERIFIER, folder, put, without

PARTIAL = put("rope_parameters.partial_rotary_factor", 0.25)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a faulty drafter in it, and the current directory below its root."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    folder(PAIRS / "dflash-zlab", tmp_path / "drafter", PARTIAL)
    return tmp_path


def check(*options: str, drafter: str = "../drafter") -> Outcome:
    return spectool("validate", drafter, "--verifier", str(VERIFIER), *options)


def test_select_runs_nothing_else(project: Path) -> None:
    assert check("--select", "ATT,SLT").code == 0
    assert check("--select", "rop").code == 1
    report = json.loads(check("--select", "ATT", "--select", "SLT001", "--format", "json").out)
    assert report["checked"] == ["ATT001", "ATT002", "SLT001"]


def test_what_is_ignored_is_counted_and_shown(project: Path) -> None:
    outcome = check("--ignore", "ROP002=rotated so in training")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "clean: nothing to report, 1 ignored"
    assert "(rotated so in training)" in outcome.out
    [item] = json.loads(check("--ignore", "ROP002=rotated so", "--format", "json").out)["suppressed"]
    assert (item["finding"]["code"], item["reason"]) == ("ROP002", "rotated so")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ignore", "ROP002"), "a reason is required"),
        (("--ignore", "ROP=x"), "no rule 'ROP' to ignore"),
        (("--ignore", "ROP022=x"), "Did you mean ROP002?"),
        (("--select", "QQQ"), "--select: no rule's code begins with 'QQQ'"),
        (("--select", "ROP,,"), "--select: no rule's code begins with ''"),
        (("--config", "absent.toml"), "absent.toml"),
    ],
)
def test_usage(options: tuple[str, ...], message: str, project: Path) -> None:
    outcome = check(*options)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""


def test_the_nearest_configuration_counts_and_is_named(project: Path) -> None:
    (project / "spectool.toml").write_text('[ignore]\nROP002 = "rotated so"\n', encoding="utf-8")
    outcome = check()
    assert outcome.code == 0
    assert outcome.err == f"configuration: {project / 'spectool.toml'}\n"
    assert "(rotated so)" in outcome.out
    assert check("--quiet").err == ""
    (project / "work" / "pyproject.toml").write_text('[tool.spectool]\nselect = ["ROP"]\n', encoding="utf-8")
    assert check().code == 1
    assert check("--config", str(project / "spectool.toml")).code == 0


def test_a_drafter_cannot_silence_its_own_findings(project: Path) -> None:
    (project / "drafter" / "spectool.toml").write_text('fail-on = "never"\n', encoding="utf-8")
    assert check().code == 1


def test_the_command_line_wins(project: Path) -> None:
    (project / "spectool.toml").write_text('fail-on = "never"\nselect = ["ATT"]\n', encoding="utf-8")
    assert check().code == 0
    assert check("--select", "ROP").code == 0
    assert check("--select", "ROP", "--fail-on", "error").code == 1


def test_the_engine_of_the_configuration(project: Path) -> None:
    (project / "spectool.toml").write_text('engine = "vllm==0.32.0"\n', encoding="utf-8")
    assert json.loads(check("--format", "json").out)["engine"] == "vllm==0.32.0"
    assert json.loads(check("--format", "json", "--engine", "vllm==0.33.0").out)["engine"] == "vllm==0.33.0"


def test_a_slip_in_the_configuration_stops_the_work(project: Path) -> None:
    (project / "spectool.toml").write_text('fail_on = "never"\n', encoding="utf-8")
    outcome = check()
    assert outcome.code == 2
    assert "unknown key 'fail_on'" in outcome.err
    assert "Did you mean fail-on?" in outcome.err


def test_what_stops_the_reading_is_a_finding_whatever_is_selected(project: Path) -> None:
    folder(PAIRS / "dflash-zlab", project / "other", put("architectures", ["Other"]))
    for options in (("--select", "ATT"), ("--ignore", "CFG001=we know")):
        outcome = check(*options, drafter="../other")
        assert outcome.code == 1
        assert "CFG001" in outcome.out


def test_a_rule_that_is_left_out_is_not_unknown(project: Path) -> None:
    folder(PAIRS / "dflash-zlab", project / "plain", without())
    report = json.loads(spectool("validate", "../plain", "--select", "ATT", "--format", "json").out)
    assert report["unknown"] == []
