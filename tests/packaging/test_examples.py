"""The examples do what they say, as far as this goes without a cluster, a Hub and a code host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkpoints import read_back
from command_line import spectool
from production import make_production

ROOT = Path(__file__).resolve().parents[2]
GITOPS = ROOT / "examples" / "gitops"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The example as a repository of its own, its pair in folders beside it."""
    pair = make_production("qwen3-8b-peagle", tmp_path / "models")
    repository = tmp_path / "repository"
    shutil.copytree(GITOPS, repository)
    file = repository / "deployments" / "qwen3-8b" / "serve.yaml"
    text = file.read_text(encoding="utf-8")
    for name, folder in (("RedHatAI/Qwen3-8B-speculator.peagle", pair.drafter), ("Qwen/Qwen3-8B", pair.verifier)):
        assert name in text
        text = text.replace(name, str(folder))
    file.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", "."], cwd=repository, check=True)
    subprocess.run(["git", "add", "."], cwd=repository, check=True)
    return repository


def run(script: str, repository: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script with `spectool` on the PATH."""
    programs = repository.parent / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "spectool").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spectool "$@"\n', encoding="utf-8")
    (programs / "spectool").chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), **variables}
    command = ["bash", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)


def steps(name: str) -> dict[str, str]:
    workflow: dict[str, Any] = yaml.safe_load((GITOPS / ".github/workflows/drafters.yml").read_text(encoding="utf-8"))
    return {step["name"]: step["run"] for step in workflow["jobs"][name]["steps"] if "name" in step}


def test_the_workflow_of_the_gitops_repository(repository: Path) -> None:
    models = repository.parent / "models"
    pair = {"DRAFTER": str(models / "Qwen3-8B-speculator.peagle"), "VERIFIER": str(models / "Qwen3-8B")}
    files = run(steps("check")["files"], repository)
    assert files.returncode == 0, files.stderr
    checked = run(steps("check")["pair"], repository, **pair)
    assert checked.returncode == 0, checked.stderr
    log = json.loads((repository / "drafters.sarif").read_text(encoding="utf-8"))
    assert log["runs"][0]["properties"]["engine"] == "vllm==0.33.0"  # spectool.toml was read
    rendered = run("./render.sh && git add rendered && git diff --exit-code -- rendered", repository)
    assert rendered.returncode == 0, rendered.stderr
    documents = list(yaml.safe_load_all((repository / "rendered" / "qwen3-8b.yaml").read_text(encoding="utf-8")))
    assert "Deployment" in {document["kind"] for document in documents}


def test_a_fault_in_the_gitops_repository_is_stopped(repository: Path) -> None:
    config = repository / "drafters" / "qwen3-8b-peagle" / "config.json"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('"mask_token_id"', '"mask_token"'), encoding="utf-8")
    assert config.read_text(encoding="utf-8") != text
    files = run(steps("check")["files"], repository)
    assert files.returncode != 0
    assert "MSK001" in files.stdout


def test_the_export_of_the_example_is_the_source_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples" / "pairs")
    text = (ROOT / "examples" / "export" / "README.md").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line.startswith("    spectool ")]
    assert len(lines) == 3
    for words in lines:
        done = spectool(*(word.replace("/tmp/export", str(tmp_path)) for word in words[1:]))  # noqa: S108 - named in the README
        assert done.code == 0, done.err
    source = read_back(ROOT / "examples" / "pairs" / "dflash-zlab" / "model.safetensors")
    assert dict(read_back(tmp_path / "zlab" / "model.safetensors")) == dict(source)
