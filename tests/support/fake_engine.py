"""A stand-in for vLLM: a small server that behaves like one as far as spectool looks, and misbehaves on request.

`make_site` writes a package `vllm` whose server module runs this file, so that an interpreter with that folder on
PYTHONPATH is an engine. How it behaves comes as JSON in FAKE_ENGINE; the keys are those of `DEFAULTS`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
DEFAULTS: dict[str, Any] = {
    "log": [],  # lines printed first
    "delay": 0.0,  # seconds before it listens
    "die": None,  # exit code before it listens, after the log
    "die_with_drafter": None,  # likewise, when started with a drafter
    "die_at_request": None,  # [number of the completion, exit code]: dies as vLLM does when its engine core is gone
    "ignore_sigterm": False,
    "slow_stop": 0.0,  # seconds between SIGTERM and the end
    "child": False,  # starts a process that ignores SIGTERM, and logs "child PID"
    "accepted": [1, 1],  # per completion and position: accepted tokens of one draft
    "drafts": 1,  # per completion
    "counters": True,
    "flip": {},  # prompt -> [index, token] with a drafter
    "gap": 2.0,  # nats between the best two tokens
    "answer": None,  # completion answer instead of a real one
    "endless": False,  # completions never end
    "speed": 0.0,  # seconds per completion
}


def make_site(folder: Path, *, distribution: str = "vllm", version: str = "9.8.7", torch: str | None = None) -> Path:
    """Write a fake vLLM into a folder for PYTHONPATH, and return the folder."""
    server = folder / "vllm" / "entrypoints" / "openai"
    server.mkdir(parents=True)
    for package in (server, server.parent, server.parent.parent):
        (package / "__init__.py").write_text("")
    (server / "api_server.py").write_text(f"import runpy\nrunpy.run_path({str(HERE)!r}, run_name='__main__')\n")
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "RECORD").write_text("vllm/__init__.py,,\nvllm/entrypoints/openai/api_server.py,,\n")
    if torch is not None:
        (folder / "torch").mkdir()
        (folder / "torch" / "__init__.py").write_text("")
        (folder / "torch" / "version.py").write_text(torch)
    return folder


def environment(site: Path, behaviour: Mapping[str, Any] | None = None, **more: str) -> dict[str, str]:
    """Return the variables for a spectool that finds the fake engine in `site`."""
    root = HERE.parents[2]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "SPECTOOL_", "HF_"))}
    return kept | {
        "PYTHONPATH": f"{site}{os.pathsep}{root}",
        "PYTHONWARNINGS": "error,ignore:'click:DeprecationWarning",  # typer's oldest release beside the newest click
        "XDG_CACHE_HOME": str(site.parent / "cache"),
        "SPECTOOL_ENGINE": sys.executable,
        "FAKE_ENGINE": json.dumps(dict(behaviour or {})),
        **more,
    }


# What a busy machine may take; nothing waits so long that does what it should.
PATIENCE = 120.0


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Poll until a condition holds, and return what it returned."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)
    return found


def runs(pid: int) -> bool:
    """Say whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


class _State:
    def __init__(self, behaviour: dict[str, Any], *, drafting: bool, name: str) -> None:
        self.behaviour, self.drafting, self.name = behaviour, drafting, name
        self.completions = 0
        self.generated = 0
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    state: _State
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given from outside
        say(f'INFO:     {self.client_address[0]}:{self.client_address[1]} - "{self.requestline}" {args[1]}')

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(200, b"")
        elif self.path == "/metrics":
            self._send(200, metrics(self.state).encode())
        else:
            self._send(404, b"{}")

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/detokenize":
            self._send(200, json.dumps({"prompt": "".join(f"<{token}>" for token in question["tokens"])}).encode())
            return
        if self.path != "/v1/completions":
            self._send(404, b"{}")
            return
        if (key := option("--api-key")) and self.headers.get("Authorization") != f"Bearer {key}":
            self._send(401, b'{"error": "Unauthorized"}')
            return
        if question["model"] != self.state.name:
            error = {"error": {"message": f"The model `{question['model']}` does not exist."}}
            self._send(404, json.dumps(error).encode())
            return
        self._complete(question)

    def _complete(self, question: dict[str, Any]) -> None:
        state, behaviour = self.state, self.state.behaviour
        with state.lock:
            state.completions += 1
            state.generated += question["max_tokens"]
            number = state.completions
        time.sleep(behaviour["speed"])
        if behaviour["die_at_request"] and number >= behaviour["die_at_request"][0]:
            say("(APIServer pid=1) ERROR 11-29 19:24:48 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: ")
            os._exit(behaviour["die_at_request"][1])
        if behaviour["endless"]:
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b" " * 65536)
        if behaviour["answer"] is not None:
            self._send(200, json.dumps(behaviour["answer"]).encode())
            return
        tokens = [(len(question["prompt"]) * 7 + index) % 500 for index in range(question["max_tokens"])]
        flip = behaviour["flip"].get(question["prompt"])
        if state.drafting and flip and flip[0] < len(tokens):
            tokens[flip[0]] = flip[1]
        tops = [{f"token_id:{token}": -0.25, "token_id:511": -0.25 - behaviour["gap"]} for token in tokens]
        logprobs = {"tokens": [f"token_id:{token}" for token in tokens], "top_logprobs": tops}
        self._send(200, json.dumps({"choices": [{"index": 0, "text": "x", "logprobs": logprobs}]}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def metrics(state: _State) -> str:
    """Return Prometheus text as vLLM writes it."""
    lines = [
        f'vllm:generation_tokens_total{{engine="0",model_name="m"}} {float(state.generated)}',
        'vllm:num_requests_running{engine="0",model_name="m"} 2.0',
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25',
    ]
    behaviour, count = state.behaviour, state.completions
    if not state.drafting or not behaviour["counters"]:
        return "\n".join(lines) + "\n"
    accepted = behaviour["accepted"]
    totals = {
        "drafts": behaviour["drafts"] * count,
        "draft_tokens": behaviour["drafts"] * len(accepted) * count,
        "accepted_tokens": sum(accepted) * count,
    }
    for name, value in totals.items():
        lines += [
            f"# TYPE vllm:spec_decode_num_{name}_total counter",
            f'vllm:spec_decode_num_{name}_total{{engine="0",model_name="m"}} {float(value)}',
            f'vllm:spec_decode_num_{name}_created{{engine="0",model_name="m"}} 1.79e+09',
        ]
    for position, value in enumerate(accepted):
        labels = f'engine="0",model_name="m",position="{position}"'
        lines.append(f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels}}} {float(value * count)}")
    return "\n".join(lines) + "\n"


def option(name: str, default: str | None = None) -> str | None:
    """Return the value of a flag on our command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def say(line: str) -> None:
    """Print a log line."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main() -> None:
    """Serve as the flags and FAKE_ENGINE say."""
    behaviour = DEFAULTS | json.loads(os.environ.get("FAKE_ENGINE", "{}"))
    drafting = "--speculative-config" in sys.argv
    stopping = threading.Event()
    if behaviour["ignore_sigterm"]:
        signal.signal(signal.SIGTERM, lambda *_: say("SIGTERM ignored"))
    else:
        signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    say(f"fake engine pid {os.getpid()}")  # after the handlers: whoever reads it may send a signal
    if behaviour["child"]:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        say(f"child {child.pid}")
    for line in behaviour["log"]:
        say(line)
    for key, applies in (("die", True), ("die_with_drafter", drafting)):
        if behaviour[key] is not None and applies:
            sys.exit(behaviour[key])
    if stopping.wait(behaviour["delay"]):
        sys.exit(0)
    model = option("--model") or ""
    name = option("--served-model-name", model) or ""
    _Handler.state = _State(behaviour, drafting=drafting, name=name)
    server = ThreadingHTTPServer((option("--host", "127.0.0.1") or "", int(option("--port", "8000") or 0)), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(f"serving {name}")
    while not stopping.wait(0.05):
        pass
    say("(APIServer pid=1) INFO 11-29 19:08:53 [launcher.py:254] [shutdown] API server: shutdown triggered")
    time.sleep(behaviour["slow_stop"])
    os._exit(0)


if __name__ == "__main__":
    main()
