"""What `make` sets up: an environment counts only when it is whole, and only for what it was made from."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import environments
import pytest
from environments import Environment, InstallError


@pytest.fixture
def make_environment(tmp_path: Path):
    def environment(source: str = "one") -> Environment:
        return Environment("trial", tmp_path / "trial", source, logs=tmp_path / "logs")

    return environment


@pytest.fixture(autouse=True)
def bare_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments without pip are made in a moment, and nothing here installs."""
    run = Environment.run

    def without_pip(self: Environment, what: str, *command: str) -> None:
        run(self, what, *command, *(["--without-pip"] if "venv" in command else []))

    monkeypatch.setattr(Environment, "run", without_pip)


def test_a_complete_environment_is_not_made_again(make_environment) -> None:
    installs: list[str] = []
    for source in ("one", "one", "two"):
        make_environment(source).make(lambda environment: installs.append(environment.name))
    assert len(installs) == 2  # the second run had nothing to do; a changed lock had


def test_an_interrupted_installation_does_not_count(make_environment) -> None:
    def interrupted(environment: Environment) -> None:
        (environment.folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_environment().make(interrupted)
    again = make_environment()
    assert again.python.exists()
    assert not again.is_complete()
    again.make(lambda environment: None)
    assert again.is_complete()
    assert not (again.folder / "half").exists()


def test_an_interrupted_renewal_does_not_leave_the_old_stamp(make_environment) -> None:
    make_environment("one").make(lambda environment: None)

    def fails(environment: Environment) -> None:
        environment.run("a step", sys.executable, "-c", "print('the reason'); raise SystemExit(3)")

    with pytest.raises(InstallError, match=r"a step failed[\s\S]*the reason"):
        make_environment("two").make(fails)
    assert not make_environment("one").is_complete()


def test_the_torch_index_is_asked_only_when_torch_is_missing(make_environment, monkeypatch) -> None:
    missing = "ERROR: No matching distribution found for torch==2.13.0+cpu"
    for log, tries in ((missing, 2), ("ERROR: No space left on device", 1)):
        commands: list[tuple[str, ...]] = []
        environment = make_environment()
        environment.log.parent.mkdir(exist_ok=True)
        environment.log.write_text(log)

        def fail(what: str, *arguments: str, seen: list[tuple[str, ...]] = commands) -> None:
            seen.append(arguments)
            raise InstallError(what)

        monkeypatch.setattr(environment, "pip", fail)
        with pytest.raises(InstallError):
            environments.install_engine(environment)
        assert len(commands) == tries
        assert ("--extra-index-url" in commands[-1]) == (tries == 2)


@pytest.mark.parametrize(
    ("system", "machine", "version", "can"),
    [
        ("Linux", "x86_64", (3, 11), True),
        ("Linux", "x86_64", (3, 12), False),
        ("Linux", "aarch64", (3, 11), False),
        ("Darwin", "x86_64", (3, 11), False),
    ],
)
def test_the_reason_for_having_no_engine_names_what_is_needed(system, machine, version, can, monkeypatch) -> None:
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("sys.version_info", (*version, 0))
    reason = environments.why_no_engine()
    assert (reason is None) == can
    assert can or f"{system} {machine}, CPython {version[0]}.{version[1]}" in reason


def test_every_line_of_the_lock_is_a_pin() -> None:
    lines = [line for line in environments.LOCK.read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert not [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.+-]+", line)]


def test_an_old_python_is_refused_with_what_to_do(root: Path, tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    run = subprocess.run(["make", "dev", f"PYTHON={old}"], cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "needs Python 3.11 or newer" in run.stderr


def test_floors_become_pins() -> None:
    assert environments.pinned(["rich>=13.9", "huggingface-hub>=1.0"]) == ["rich==13.9", "huggingface-hub==1.0"]


@pytest.mark.parametrize("dependency", ["rich", "rich==13.9", "rich>=13.9,<14"])
def test_a_dependency_without_a_plain_floor_is_refused(dependency: str) -> None:
    with pytest.raises(InstallError, match="has no floor"):
        environments.pinned([dependency])
