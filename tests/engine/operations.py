"""`spectool serve` at work with the real vLLM: what takes too long for every test run. `make operations` runs it.

Planted faults that stop an engine, each with the cause spectool must name; native and converted pairs whose acceptance
must be the same; an engine killed while it serves; two machines rehearsed on the loopback.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest
from fake_engine import wait_for
from mutations import Change, folder, with_zeros

from spectool.serving.address import Address, free_port
from spectool.serving.client import Client
from spectool.serving.launch import living_members

# A cold start was seen to take four minutes on two cores that others used too.
START_SECONDS = 900.0
FLAGS = ("--enforce-eager", "--max-model-len", "512", "--dtype", "bfloat16", "--max-num-seqs", "8")
TRITON_ON_CPU = Path(__file__).parent / "harness" / "triton_on_cpu"


@dataclass(frozen=True)
class Fault:
    """A launch that cannot start, and what spectool must say about it."""

    name: str
    cause: str
    rule: str | None
    pair: str = "dflash-zlab"
    flags: tuple[str, ...] = ()
    change: Change | None = None
    env: tuple[tuple[str, str], ...] = ()


FAULTS = (
    Fault("dspark-without-triton", "DSpark needs Model Runner V2", "RUN001", pair="dspark-deepspec"),
    Fault("longer-than-the-verifier", "beyond what the verifier", "LEN002", flags=("--max-model-len", "100000")),
    Fault("unknown-flag", "does not know a flag", None, flags=("--no-such-flag",)),
    Fault("unknown-key", "does not know a key", "SPC001", flags=("-sc", '{"no_such_key": 1}')),
    Fault("heads-do-not-divide", "does not divide", "PAR001", flags=("--tensor-parallel-size", "3")),
    Fault(
        "no-room-to-draft",
        "leaves no room",
        "BUD001",
        flags=("--max-num-batched-tokens", "7", "--max-num-seqs", "4"),
    ),
    Fault("draft-ranks", "neither 1 nor", "PAR002", flags=("-sc", '{"draft_tensor_parallel_size": 3}')),
    Fault(
        "synthetic-without-rates",
        "synthetic",
        "SPC005",
        flags=("-sc", '{"rejection_sample_method": "synthetic"}'),
    ),
    Fault("drafter-length", "beyond what the drafter's own", "SPC004", flags=("-sc", '{"max_model_len": 100000}')),
    Fault("extra-tensor", "does not know", "TEN002", change=with_zeros("layers.0.extra_thing", 8)),
    Fault("runner-forced", "no Triton", None, env=(("VLLM_USE_V2_MODEL_RUNNER", "1"),)),
)


def variables(root: Path, *, dspark: bool = False) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"VLLM_CPU_KVCACHE_SPACE": "1", "PYTHONPATH": str(root)}
    if dspark:
        env |= {"TRITON_INTERPRET": "1", "VLLM_USE_V2_MODEL_RUNNER": "1", "PYTHONPATH": f"{root}:{TRITON_ON_CPU}"}
    return env


@dataclass
class Served:
    """A running `spectool serve`, its output in a file."""

    process: subprocess.Popen[bytes]
    log: Path
    address: Address
    lines: list[str] = field(default_factory=list)

    def said(self) -> list[str]:
        return [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("spectool: ")]

    def wait(self, text: str) -> None:
        wait_for(
            lambda: any(text in line for line in self.said()) or self.process.poll() is not None, text, START_SECONDS
        )
        assert any(text in line for line in self.said()), self.log.read_text(errors="replace")[-4000:]

    def engine(self) -> list[int]:
        """Return the engine's processes, found by the port on its command line."""
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = file.read_bytes().split(b"\0")
            except OSError:
                continue
            if str(self.address.port).encode() in words and b"spectool" not in words:
                return living_members(int(file.parent.name))
        return []


@pytest.fixture
def serve(root: Path, pairs: Path, engine_python: Path, tmp_path: Path) -> Iterator[object]:
    running: list[Served] = []

    def start(
        drafter: Path,
        *options: str,
        flags: tuple[str, ...] = FLAGS,
        dspark: bool = False,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> Served:
        address = Address(port=free_port())
        argv = [sys.executable, "-m", "spectool", "serve", str(drafter), "--verifier", str(pairs / "verifier")]
        argv += ["--engine-python", str(engine_python), *options, "--", *flags]
        argv += ["--host", address.host, "--port", str(address.port)]
        log = tmp_path / f"log-{len(running)}"
        with log.open("wb") as file:
            process = subprocess.Popen(argv, env={**variables(root, dspark=dspark), **env}, stderr=file, stdout=file)
        running.append(Served(process, log, address))
        return running[-1]

    yield start
    for served in running:
        served.process.send_signal(signal.SIGTERM)
        try:
            served.process.wait(60)
        except subprocess.TimeoutExpired:
            served.process.kill()
            served.process.wait()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_cause_of_a_failed_start_is_named(serve: object, pairs: Path, tmp_path: Path, fault: Fault) -> None:
    assert callable(serve)
    drafter = pairs / fault.pair
    if fault.change is not None:
        drafter = folder(drafter, tmp_path / "drafter", fault.change)
    served = serve(drafter, "--force", flags=(*FLAGS, *fault.flags), env=dict(fault.env))
    code = served.process.wait(START_SECONDS)
    said = "\n".join(served.said())
    assert code not in (0, None), said
    meaning = re.search(r"^spectool:   meaning: (.*)$", said, re.MULTILINE)
    assert meaning is not None, served.log.read_text(errors="replace")[-6000:]
    assert fault.cause in meaning[1]
    if fault.rule is not None:
        assert f"spectool rule {fault.rule}" in said
    # Kept for the table of recorded logs in tests/unit/serving.
    if folder_name := os.environ.get("SPECTOOL_KEEP_LOGS"):
        (Path(folder_name) / f"{fault.name}.log").write_bytes(served.log.read_bytes())


@pytest.mark.parametrize(
    ("pair", "settings"),
    [
        ("dflash-zlab", ()),
        ("peagle-native", ("--set", "speculative_tokens=5")),
        ("dspark-deepspec", ()),
    ],
)
def test_a_converted_pair_accepts_what_its_native_folder_does(
    serve: object, root: Path, pairs: Path, tmp_path: Path, pair: str, settings: tuple[str, ...]
) -> None:
    """Both in this run, on this machine: figures differ between machines."""
    assert callable(serve)
    out = tmp_path / "converted"
    verifier = ("--verifier", str(pairs / "verifier"), "--set", "verifier=spectool/tiny-verifier")
    command = [sys.executable, "-m", "spectool", "convert", str(pairs / pair), str(out), *verifier, *settings]
    done = subprocess.run(command, env=variables(root), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    dspark = pair.startswith("dspark")
    native = serve(pairs / pair, *settings, dspark=dspark)
    native.wait("spectool: check: ")
    native.process.send_signal(signal.SIGTERM)
    assert native.process.wait(90) == 0
    length, rounds = figures(native)
    converted = serve(out, "--expect", f"{length:.3f}", "--check", "strict", dspark=dspark)
    converted.wait("spectool: check: good: ")
    assert figures(converted) == (length, rounds)
    assert any(f"expected {length:.3f} (--expect)" in line for line in converted.said())
    assert len(Client(converted.address).complete("verifier", "def f(", 16, 120.0).tokens) == 16
    converted.process.send_signal(signal.SIGINT)
    assert converted.process.wait(90) == 0
    assert converted.engine() == []


def figures(served: Served) -> tuple[float, int]:
    line = next(line for line in served.said() if line.startswith("spectool: check: "))
    match = re.search(r"acceptance length ([\d.]+) in (\d+) rounds", line)
    assert match, line
    return float(match[1]), int(match[2])


def test_an_engine_killed_while_serving_is_reported(serve: object, pairs: Path) -> None:
    """vLLM then ends with 0; a supervisor must see that something happened."""
    assert callable(serve)
    served = serve(pairs / "dflash-zlab")
    served.wait("spectool: check: good: ")
    core = max(pid for pid in served.engine() if b"EngineCore" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(core, signal.SIGKILL)
    assert served.process.wait(120) != 0
    said = "\n".join(served.said())
    assert "the engine ended while serving" in said
    assert re.search(r"seen \d+ s before the end", said)
    assert served.engine() == []


def test_the_verifier_is_served_alone_where_the_drafter_cannot_start(
    serve: object, pairs: Path, tmp_path: Path
) -> None:
    assert callable(serve)
    broken = folder(pairs / "dflash-zlab", tmp_path / "drafter", with_zeros("layers.0.extra_thing", 8))
    served = serve(broken, "--force", "--or-plain")
    served.wait("WITHOUT its drafter")
    assert len(Client(served.address).complete("verifier", "def f(", 8, 120.0).tokens) == 8
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(90) == 0


def named_vllm(folder: Path) -> Path:
    """Make a folder for PYTHONPATH with which the `vllm` command of vllm-cpu works: it asks for vllm's version."""
    info = folder / "vllm-0.32.0+cpu.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    return folder


def test_two_machines_on_the_loopback(serve: object, root: Path, pairs: Path, tmp_path: Path) -> None:
    """Two ranks of one tensor-parallel group, each started by its own `spectool serve`, over gloo: no GPU, no wire."""
    assert callable(serve)
    master = str(free_port())
    several = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", master, "--tensor-parallel-size", "2")
    env = {"PYTHONPATH": f"{root}:{named_vllm(tmp_path / 'named')}"}
    head = serve(pairs / "dflash-zlab", flags=(*FLAGS, *several, "--node-rank", "0"), env=env)
    worker = serve(pairs / "dflash-zlab", flags=(*FLAGS, *several, "--node-rank", "1", "--headless"), env=env)
    wait_for(
        lambda: any(": check: " in line for line in head.said()) or worker.process.poll() is not None,
        "the head",
        START_SECONDS,
    )
    assert any("check: good: " in line for line in head.said())
    assert worker.process.poll() is None, worker.log.read_text(errors="replace")[-4000:]
    assert "world_size=2 rank=1" in worker.log.read_text(errors="replace")
    assert len(Client(head.address).complete("verifier", "def f(", 8, 120.0).tokens) == 8
    for served in (head, worker):
        served.process.send_signal(signal.SIGTERM)
    assert head.process.wait(90) == 0
    worker.process.wait(90)  # with the head gone or with its signal, whichever it sees first
    assert head.engine() == worker.engine() == []
