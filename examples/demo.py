"""Convert, check and serve one drafter of each method, then compare it with its native folder in vLLM.

Run by `make demo`, which installs vLLM's CPU build and names its interpreter in SPECTOOL_TEST_ENGINE. No GPU is needed.
Everything is written to demo/. Exit 1: a step failed, or a converted folder does not draft exactly as the native one.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from environments import why_no_engine  # noqa: E402 - found through the line above
from oracle import TRITON_ON_CPU, Verdict, acceptance_length, example_prompts, judge  # noqa: E402 - after the path is set

PAIRS = ROOT / "examples" / "pairs"
VERIFIER = PAIRS / "verifier"
OUTPUT = ROOT / "demo"

PROMPT = "def __init__(self, "
TOKENS = 32
START_WITHIN = 300  # seconds; a cold start with interpreted kernels takes about one minute on two cores
STOP_WITHIN = 60

# For every server here, because there is no GPU. DSpark needs vLLM's V2 model runner, and that needs Triton: its
# kernels run in Triton's own interpreter, with right numbers but slowly. Set none of this on a machine with a GPU.
SMALL = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
TRITON = {"TRITON_INTERPRET": "1", "VLLM_USE_V2_MODEL_RUNNER": "1", "PYTHONPATH": str(TRITON_ON_CPU)}
ENGINE_FLAGS = ["--enforce-eager", "--max-model-len", "512", "--max-num-batched-tokens", "256", "--dtype", "bfloat16"]


@dataclass(frozen=True)
class Pair:
    """A drafter, how vLLM is told to load its native folder, and what converting it needs."""

    method: str
    folder: str
    native: dict[str, Any]
    answers: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> Path:
        return PAIRS / self.folder

    @property
    def converted(self) -> Path:
        return OUTPUT / self.method.lower()


DEMO = [
    Pair(
        "P-EAGLE",
        "peagle-native",
        {"method": "eagle3", "parallel_drafting": True, "num_speculative_tokens": 5},
        answers=("--set", "speculative_tokens=5"),  # this layout does not say it
    ),
    Pair("DFlash", "dflash-zlab", {"method": "dflash", "num_speculative_tokens": 7}),
    Pair(
        "DSpark",
        "dspark-deepspec",
        {"method": "dspark", "num_speculative_tokens": 7},
        environment=tuple(TRITON.items()),
    ),
]


class DemoError(Exception):
    """A step of the demo failed; the message says which."""


def main() -> int:
    # A shell that starts us in the background lets us ignore this signal, and servers of ours would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    engine = os.environ.get("SPECTOOL_TEST_ENGINE")
    try:
        for pair in DEMO:
            title(f"{pair.method}: convert and validate examples/pairs/{pair.folder}")
            convert(pair)
            spectool("validate", pair.converted, "--verifier", VERIFIER)
        if not engine:
            title("Not served and not compared")
            print(f"Serving is skipped: {why_no_engine() or 'SPECTOOL_TEST_ENGINE is not set; `make demo` sets it'}.")
            print("The three drafters were converted and validated; that needs no engine.")
            return 0
        for pair in DEMO:
            title(f"{pair.method}: serve {shown(pair.converted)}")
            serve(pair, Path(engine).absolute())
        title("Native, converted, and no drafter, in one vLLM run (two to four minutes)")
        return compare(judge(engine, cases(), OUTPUT))
    except DemoError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def title(text: str) -> None:
    print(f"\n== {text}", flush=True)


def shown(path: object) -> str:
    """Paths as they look from the checkout, so that a command can be copied."""
    return str(path).replace(f"{ROOT}{os.sep}", "")


def convert(pair: Pair) -> None:
    arguments = (pair.source, pair.converted, "--verifier", VERIFIER, "--set", "verifier=spectool/tiny-verifier")
    spectool("convert", *arguments, *pair.answers)


def spectool(*arguments: object) -> None:
    command = spectool_command(*arguments)
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise DemoError(f"spectool {arguments[0]} did not succeed")


def spectool_command(*arguments: object) -> list[str]:
    words = [shown(argument) for argument in arguments]
    print(f"$ spectool {shlex.join(words)}", flush=True)
    return [sys.executable, "-m", "spectool", *words]


# --- a server: started, asked, stopped ------------------------------------------------------------------------


def serve(pair: Pair, engine_python: Path) -> None:
    """Serve the converted folder, send a request, stop the server as Ctrl-C does, and show what spectool says of it."""
    port = free_port()
    own = ("--verifier", VERIFIER, "--engine-python", engine_python)
    command = spectool_command("serve", pair.converted, *own, "--check", "off", "--", *ENGINE_FLAGS, "--port", port)
    log = OUTPUT / f"serve-{pair.method.lower()}.log"
    environment = {**os.environ, **SMALL, **dict(pair.environment)}
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C meant for the demo reaches the server once: from here
        )
    try:
        wait_until_ready(server, port, log)
        print(f"   asked:    {PROMPT!r}\n   answered: {complete(port)!r}", flush=True)
        server.send_signal(signal.SIGINT)
        code = server.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"the {pair.method} server did not stop within {STOP_WITHIN} s; see {shown(log)}") from error
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("spectool: ") and "starting the engine" not in line:
            print(f"   {line}")
    if code != 0:
        raise DemoError(f"spectool serve ended with exit code {code}; see {shown(log)}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    started = said = time.monotonic()
    while time.monotonic() - started < START_WITHIN:
        if server.poll() is not None:
            raise DemoError(f"the server ended with exit code {server.returncode}:\n{tail(log)}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)
        if time.monotonic() - said >= 15:
            said = time.monotonic()
            print(f"   starting vLLM: {said - started:.0f} s", flush=True)
    raise DemoError(f"the server was not ready within {START_WITHIN} s:\n{tail(log)}")


def complete(port: int) -> str:
    """Send one request and return the text, which must not be empty."""
    base = f"http://127.0.0.1:{port}/v1"
    with urllib.request.urlopen(f"{base}/models", timeout=30) as answer:
        model = json.load(answer)["data"][0]["id"]
    body = {"model": model, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = str(json.load(answer)["choices"][0]["text"])
    if not text:
        raise DemoError("the server answered with no text")
    return text


def tail(log: Path) -> str:
    return "\n".join(f"   {line}" for line in log.read_text(errors="replace").splitlines()[-20:])


# --- the comparison -------------------------------------------------------------------------------------------


def cases() -> list[dict[str, Any]]:
    common = {
        "verifier": str(VERIFIER),
        "runner": "auto",  # the one vLLM chooses wherever Triton works
        "prompts": example_prompts(),
        "max_tokens": TOKENS,
        "engine_args": {"max_num_batched_tokens": 256},
    }
    rows: list[dict[str, Any]] = [{"id": "none", "speculative_config": None, **common}]
    for pair in DEMO:
        for layout, folder in ("native", pair.source), ("converted", pair.converted):
            config = {**pair.native, "model": str(folder)}
            rows.append({"id": f"{pair.method} {layout}", "speculative_config": config, **common})
    return rows


def compare(verdicts: dict[str, Verdict]) -> int:
    """Print the table; 0 when every converted folder drafts as its native one and drafting changes no output."""
    for verdict in verdicts.values():
        if not verdict["ok"]:
            raise DemoError(f"vLLM ended at stage {verdict['stage']} with {verdict['id']}: {verdict['root']}")
    digest = verdicts["none"]["extra"]["digest"]
    rows, equal = [], True
    for pair in DEMO:
        native, converted = (verdicts[f"{pair.method} {layout}"] for layout in ("native", "converted"))
        differs = [
            key
            for key in ("drafts", "accepted", "accepted_per_pos", "digest")
            if native["extra"][key] != converted["extra"][key]
        ]
        if converted["extra"]["digest"] != digest:
            differs.append("output without a drafter")
        equal = equal and not differs
        lengths = (f"{acceptance_length(verdict):.3f}" for verdict in (native, converted))
        rows.append((pair.method, *lengths, f"NO: {', '.join(differs)}" if differs else "yes"))
    title("Acceptance length: tokens per verification, the bonus token included")
    print(f"{'method':<10}{'native':>8}{'converted':>11}   equal")
    for method, native_length, converted_length, verdict_text in rows:
        print(f"{method:<10}{native_length:>8}{converted_length:>11}   {verdict_text}")
    print("\nequal: the same drafts, the same acceptances at each position, the same tokens, and those of no drafter.")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
