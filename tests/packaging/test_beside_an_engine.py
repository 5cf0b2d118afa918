"""Installing spectool into an environment that has vLLM changes no other package."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from clean_run import run
from environments import why_no_engine


@pytest.mark.engine
def test_only_spectool_would_be_installed(built, tmp_path: Path) -> None:
    engine = os.environ.get("SPECTOOL_TEST_ENGINE")
    if not engine:
        pytest.skip(why_no_engine() or "SPECTOOL_TEST_ENGINE is not set: `make test` sets it, or name an interpreter")
    report = tmp_path / "report.json"
    pip = (Path(engine).absolute(), "-m", "pip", "install", "--disable-pip-version-check", "--dry-run")
    run(*pip, "--report", report, built.wheel, cwd=tmp_path)
    planned = [item["metadata"]["name"] for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    assert planned == ["spectool"]
