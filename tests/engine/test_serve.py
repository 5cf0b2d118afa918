"""`spectool serve` with the real vLLM: a pair answers, and stops on a signal with its acceptance."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_engine import runs, wait_for

from spectool.serving.address import Address, free_port
from spectool.serving.client import Client
from spectool.serving.launch import living_members

pytestmark = pytest.mark.slow

# A cold start was seen to take 110 s on two busy cores.
START_SECONDS = 900.0
FLAGS = ["--enforce-eager", "--max-model-len", "512", "--dtype", "bfloat16", "--max-num-seqs", "8"]


def variables(root: Path) -> dict[str, str]:
    """Return what the engine needs on a CPU."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return env | {"VLLM_CPU_KVCACHE_SPACE": "1", "PYTHONPATH": str(root)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


# Each pair with one signal: what stops an engine does not depend on its drafter. DSpark takes minutes to start:
# on a CPU `make demo` and `make operations` serve and stop it.
@pytest.mark.parametrize(
    ("pair", "settings", "number"),
    [
        ("dflash-zlab", [], signal.SIGINT),
        ("peagle-native", ["--set", "speculative_tokens=5"], signal.SIGTERM),
    ],
)
def test_a_pair_is_served_and_stops_on_a_signal(
    root: Path,
    pairs: Path,
    engine_python: Path,
    log: Path,
    running: list[subprocess.Popen[bytes]],
    pair: str,
    settings: list[str],
    number: signal.Signals,
) -> None:
    address = Address(port=free_port())
    argv = [sys.executable, "-m", "spectool", "serve", str(pairs / pair), "--verifier", str(pairs / "verifier")]
    argv += [*settings, "--engine-python", str(engine_python), "--check", "strict"]
    argv += ["--", "--host", address.host, "--port", str(address.port), *FLAGS]
    with log.open("wb") as file:
        process = subprocess.Popen(argv, env=variables(root), stderr=file, stdout=file)
    running.append(process)
    wait_for(lambda: "spectool: check: " in log.read_text() or process.poll() is not None, "the start", START_SECONDS)
    assert process.poll() is None, log.read_text()[-5000:]
    engine = engine_of(address)
    assert len(engine) > 1  # the server and its engine core
    answer = Client(address).complete("verifier", "def __init__(self, ", 32, 300.0)
    assert len(answer.tokens) == 32
    process.send_signal(number)
    assert process.wait(300) == 0
    said = [line for line in log.read_text().splitlines() if line.startswith("spectool: ")]
    assert any(line.startswith("spectool: check: good: acceptance length ") for line in said)
    assert said[-2] == f"spectool: {number.name}, stopping the engine (again to kill it)"
    match = re.fullmatch(r"spectool: acceptance: (\d+) drafts, acceptance length ([\d.]+), per position (.*)", said[-1])
    assert match, said
    # 32 tokens take fewer rounds than tokens, or nothing was speculated.
    assert 0 < int(match[1]) < 32
    assert float(match[2]) > 1.2
    assert len(match[3].split()) == (5 if pair.startswith("peagle") else 7)
    assert not [pid for pid in engine if runs(pid)]


def engine_of(address: Address) -> list[int]:
    """Return the engine's processes, found by the port on its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(address.port).encode() in words and b"spectool" not in words:
            return living_members(int(file.parent.name))
    pytest.fail("the engine's process was not found")
