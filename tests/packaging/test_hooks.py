"""The shipped pre-commit hooks: their entries as written, and through pre-commit itself."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_files import DATA, ROOT, files

HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
BY_ID = {hook["id"]: hook for hook in HOOKS}


def chosen(hook: dict[str, Any], paths: list[Path]) -> list[Path]:
    """The files pre-commit would hand to a hook."""
    return [path for path in paths if re.search(hook["files"], path.relative_to(ROOT).as_posix())]


def run_entry(hook: dict[str, Any], paths: list[Path]) -> subprocess.CompletedProcess[str]:
    """Run a hook's entry, `spectool` being this checkout's."""
    program, *arguments = shlex.split(hook["entry"])
    assert program == "spectool"
    command = [sys.executable, "-m", "spectool", *arguments, *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_hooks_are_the_three_and_run_in_one_process() -> None:
    assert set(BY_ID) == {"spectool-config", "spectool-deployment", "spectool-dialect"}
    for hook in HOOKS:
        assert hook["language"] == "python"
        assert hook["require_serial"] is True
        assert hook["description"].endswith(".")


@pytest.mark.parametrize("name", BY_ID)
def test_entry_passes_good_files(name: str) -> None:
    paths = chosen(BY_ID[name], [*files("good"), *files("odd"), *files("others")])
    assert paths
    outcome = run_entry(BY_ID[name], paths)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("name", BY_ID)
def test_entry_fails_each_bad_file(name: str) -> None:
    paths = chosen(BY_ID[name], files("bad"))
    outcome = run_entry(BY_ID[name], paths)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    for path in paths:
        assert re.search(rf"^{re.escape(str(path))}:\d+: error {path.parent.name[:6]} ", outcome.stdout, re.MULTILINE)


def test_every_file_of_ours_is_taken_by_one_hook() -> None:
    for path in [*files("good"), *files("bad"), *files("others"), *files("odd")]:
        assert [hook["id"] for hook in HOOKS if chosen(hook, [path])], path


def git(*arguments: str | Path, cwd: Path) -> None:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *map(str, arguments)]
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True)


def repository(folder: Path, groups: tuple[str, ...]) -> Path:
    """A repository of somebody else, with files of these groups."""
    for group in groups:
        shutil.copytree(DATA / group, folder / group)
    git("init", "-q", cwd=folder)
    git("add", "-A", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def hooks_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout as pre-commit would clone it: what is tracked, as it stands now."""
    folder = tmp_path_factory.mktemp("spectool")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, ours = ROOT / name, name.startswith(("spectool/", "schemas/", "converters/")) or "/" not in name
        if ours and source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
    git("init", "-q", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-qm", "hooks", cwd=folder)
    return folder


def index_can_be_reached() -> bool:
    command = [sys.executable, "-m", "pip", "index", "versions", "typer"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.slow
def test_pre_commit_runs_the_hooks(hooks_repository: Path, tmp_path: Path) -> None:
    """One run, since each installs spectool anew: bad configs and deployments fail, good dialect files pass."""
    if not index_can_be_reached():
        pytest.skip("pip reaches no package index: pre-commit cannot install spectool")
    theirs = repository(tmp_path / "theirs", ("good", "others", "odd", "bad"))
    for path in theirs.glob("bad/SCH002-dialect-*"):
        shutil.rmtree(path)
    git("add", "-A", cwd=theirs)
    # The user's own pip settings and cache, but neither this environment's packages nor its hooks.
    hidden = ("PYTHON", "GIT_", "VIRTUAL_ENV", "PRE_COMMIT")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    environment["PRE_COMMIT_HOME"] = str(tmp_path / "cache")
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(hooks_repository), "--all-files", "--color=never"]
    outcome = subprocess.run(command, cwd=theirs, env=environment, capture_output=True, text=True, check=False)
    # 3 is pre-commit's own failure; pip's words for a network that broke off underneath.
    broken_off = re.search(
        r"Read timed out|Connection\w* (broken|error|aborted|reset)|NewConnectionError", outcome.stdout
    )
    if outcome.returncode == 3 and broken_off:
        pytest.skip(f"pre-commit could not install spectool: {broken_off[0]}")
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    verdicts = re.findall(r"^(.+ files|.+ configs) \(spectool\)\.+(Passed|Failed)$", outcome.stdout, re.MULTILINE)
    assert verdicts == [("drafter configs", "Failed"), ("deployment files", "Failed"), ("dialect files", "Passed")]
    found = set(re.findall(r"^(\S+?):\d+: error ", outcome.stdout, re.MULTILINE))
    assert found == {str(path.relative_to(theirs)) for path in theirs.glob("bad/*/*")}
