"""SARIF by Microsoft's own validator, from npm: https://www.npmjs.com/package/@microsoft/sarif-multitool."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from clean_run import npm_install
from command_line import spectool
from mutations import PAIRS, VERIFIER, both, folder, put, with_zeros

PACKAGE = "@microsoft/sarif-multitool@5.7.0"
# The program is a .NET one; without ICU libraries it runs in this mode only.
ENVIRONMENT = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}


@pytest.fixture(scope="session")
def multitool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; skipped where npm, the registry or the platform is missing."""
    given = os.environ.get("SPECTOOL_SARIF_MULTITOOL")
    if given:
        return Path(given)
    root = tmp_path_factory.mktemp("multitool")
    if why := npm_install(root, PACKAGE):
        pytest.skip(f"{why}, and SPECTOOL_SARIF_MULTITOOL names no sarif-multitool")
    for program in root.glob("node_modules/@microsoft/sarif-multitool-*/Sarif.Multitool"):
        program.chmod(0o755)  # what the package's own script does
    found = root / "node_modules" / ".bin" / "sarif-multitool"
    probe = subprocess.run(
        [found, "version"], env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if probe.returncode != 0:
        pytest.skip(f"{PACKAGE} does not run here: {probe.stderr.strip()[-200:]}")
    return found


def verdict(multitool: Path, log: Path) -> list[tuple[str, str]]:
    """Level and rule of everything the validator says of a log."""
    out = log.with_suffix(".verdict")
    command = [multitool, "validate", log, "--output", out, "--log", "ForceOverwrite"]
    done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False)
    assert out.exists(), done.stdout + done.stderr
    run = json.loads(out.read_text(encoding="utf-8-sig"))["runs"][0]
    return [(item.get("level", "warning"), item["ruleId"]) for item in run.get("results", [])]


@pytest.mark.slow
def test_the_validator_has_nothing_against_our_logs(multitool: Path, tmp_path: Path) -> None:
    change = both(
        put("rope_parameters.partial_rotary_factor", 0.25),
        put("dflash_config.mask_token_id", 600),
        with_zeros("layers.0.[a](b) {0}", 4),
    )
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", change)
    logs = {
        "faulty": ("--verifier", str(VERIFIER), "--ignore", "TEN002=left by the exporter"),
        "unknown": (),
    }
    for name, options in logs.items():
        log = tmp_path / f"{name}.sarif"
        log.write_text(spectool("validate", str(broken), *options, "--format", "sarif").out, encoding="utf-8")
        assert verdict(multitool, log) == []


@pytest.mark.slow
def test_the_validator_is_not_blind(multitool: Path, tmp_path: Path) -> None:
    document = json.loads(spectool("validate", str(PAIRS / "dflash-zlab"), "--format", "sarif").out)
    document["runs"][0]["tool"]["driver"]["rules"][0]["id"] = 3
    log = tmp_path / "wrong.sarif"
    log.write_text(json.dumps(document), encoding="utf-8")
    assert any(level == "error" for level, _ in verdict(multitool, log))
