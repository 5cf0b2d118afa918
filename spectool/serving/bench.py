"""Measure speed by K and load with vLLM's own `bench serve`; one result file a point makes a sweep resumable."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from spectool.errors import CannotRunError, EngineMissingError, UsageError
from spectool.formats.profile import ProfilePoint
from spectool.serving.address import Address
from spectool.serving.client import Client
from spectool.serving.launch import EngineProcess
from spectool.serving.progress import Progress
from spectool.serving.ready import Start, explain, wait_ready
from spectool.serving.signals import StopSignals

START_TIMEOUT = 3600.0
_POLL = 0.2
_SETTING = "sweep.json"
_PROMPTS = "prompts.jsonl"
# `vllm bench serve` by its module: builds whose distribution is not called vllm have no working `vllm` command.
_BENCH = (
    "import argparse; from vllm.benchmarks.serve import add_cli_args, main; "
    "parser = argparse.ArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
)


@dataclass(frozen=True)
class Sweep:
    """What to measure.

    Attributes:
        command: returns the command that serves with so many drafts, 0 without a drafter.
        points: (K, requests), in order; those of one K share a server.
        address: free, chosen by us.
        model: served name.
        tokenizer: the verifier, for the client to count tokens with.
        python: the engine's interpreter.
        prompts: to send; None lets vLLM make random ones, which is right for synthetic acceptance only.
        output_tokens: per request.
        per_request: prompts for each request in flight.
        folder: where the results go.
        setting: what must be the same to resume.
        minutes: no point is begun after so many.
        api_key: that the server wants, or None.

    """

    command: Callable[[int], Sequence[str]]
    points: Sequence[tuple[int, int]]
    address: Address
    model: str
    tokenizer: str
    python: Path
    prompts: Sequence[str] | None
    output_tokens: int
    per_request: int
    folder: Path
    setting: Mapping[str, Any]
    minutes: float
    api_key: str | None = None


def run(sweep: Sweep, progress: Progress) -> list[ProfilePoint]:
    """Measure what is not measured yet, within the time; return every point there is a result of.

    Raises:
        CannotRunError: `bench serve` fails, or its result cannot be used.
        EngineMissingError: a server does not start.
        UsageError: the folder holds another sweep.
        SystemExit: a signal came; engine and client were stopped.

    """
    prepare(sweep)
    done = {key: point for key in sweep.points if (point := _done(sweep.folder, *key)) is not None}
    if done:
        progress.line(f"spectool: {len(done)} of {len(sweep.points)} points are there already")
    started = time.monotonic()
    with StopSignals() as signals:
        for k in dict.fromkeys(k for k, _ in sweep.points):
            open_loads = [load for at, load in sweep.points if at == k and (k, load) not in done]
            if open_loads and _time_left(sweep, started) > 0:
                done |= _serve_and_measure(sweep, k, open_loads, started, progress, signals)
    missing = len(sweep.points) - len(done)
    if missing:
        progress.line(f"spectool: {missing} points were not begun in {sweep.minutes:g} minutes; run it again for them")
    return [done[key] for key in sweep.points if key in done]


def prepare(sweep: Sweep) -> None:
    """Make the folder, or check that it holds this very sweep.

    Raises:
        UsageError: it holds another one, or something else.

    """
    path = sweep.folder / _SETTING
    text = json.dumps(sweep.setting, indent=1, sort_keys=True) + "\n"
    if path.is_file():
        if path.read_text(encoding="utf-8") != text:
            raise UsageError(
                f"{sweep.folder} holds a sweep of something else (see its {_SETTING})", hint="Name another folder."
            )
        return
    if sweep.folder.exists() and (not sweep.folder.is_dir() or any(sweep.folder.iterdir())):
        raise UsageError(f"{sweep.folder} exists and holds no sweep", hint="Name another folder.")
    sweep.folder.mkdir(parents=True, exist_ok=True)
    if sweep.prompts is not None:
        lines = [json.dumps({"prompt": prompt}) + "\n" for prompt in sweep.prompts]
        write_whole(sweep.folder / _PROMPTS, "".join(lines))
    write_whole(path, text)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is never there in part."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)


def _serve_and_measure(
    sweep: Sweep, k: int, loads: Sequence[int], started: float, progress: Progress, signals: StopSignals
) -> dict[tuple[int, int], ProfilePoint]:
    found = {}
    progress.line(f"spectool: starting the engine {f'with K = {k}' if k else 'without the drafter'}")
    with EngineProcess(sweep.command(k), _drop) as engine:
        signals.on_second = engine.kill
        start = wait_ready(
            engine,
            Client(sweep.address, sweep.api_key),
            progress,
            interrupted=lambda: signals.received is not None,
            timeout=START_TIMEOUT,
        )
        _check(signals)
        if start is not Start.READY:
            for line in explain(engine, tail=True):
                progress.error(f"spectool: {line}")
            raise EngineMissingError(f"the engine does not start {f'with K = {k}' if k else 'without the drafter'}")
        for load in loads:
            if _time_left(sweep, started) <= 0:
                break
            progress.line(f"spectool: K = {k}, {load} requests at a time")
            found[k, load] = _bench(sweep, k, load, progress, signals)
    return found


def _bench(sweep: Sweep, k: int, load: int, progress: Progress, signals: StopSignals) -> ProfilePoint:
    """Run the client for one point, keep its result, and return it."""
    with tempfile.TemporaryDirectory(dir=sweep.folder, prefix=".running-") as folder:
        argv = bench_command(sweep, load, Path(folder))
        log = Path(folder) / "log"
        environment = dict(os.environ) | ({"OPENAI_API_KEY": sweep.api_key} if sweep.api_key else {})
        begun = time.monotonic()
        with (
            log.open("wb") as out,
            subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment
            ) as client,
        ):
            try:
                while client.poll() is None:
                    _check(signals)
                    progress.waiting("spectool: measuring", time.monotonic() - begun)
                    time.sleep(_POLL)
            finally:
                progress.done()
                if client.poll() is None:
                    client.kill()
        if client.returncode != 0:
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]:
                progress.error(f"spectool: {line}")
            raise CannotRunError(f"vLLM's bench serve ended with {client.returncode} at K = {k}, {load} requests")
        text = (Path(folder) / "result.json").read_text(encoding="utf-8")
    point = point_of(text, k, load)
    write_whole(_result(sweep.folder, k, load), point.model_dump_json(indent=1) + "\n")
    return point


def bench_command(sweep: Sweep, load: int, folder: Path) -> list[str]:
    """Return the client's command for one load; its result is `folder/result.json`."""
    count = load * sweep.per_request
    argv = [str(sweep.python), "-c", _BENCH, "--backend", "openai", "--endpoint", "/v1/completions"]
    argv += ["--host", sweep.address.host, "--port", str(sweep.address.port), "--model", sweep.model]
    argv += ["--tokenizer", sweep.tokenizer, "--num-prompts", str(count), "--max-concurrency", str(load)]
    argv += ["--seed", "0", "--temperature", "0", "--save-result", "--result-dir", str(folder)]
    argv += ["--result-filename", "result.json", "--disable-tqdm", "--ignore-eos"]
    if sweep.prompts is None:
        return [*argv, "--dataset-name", "random", "--random-output-len", str(sweep.output_tokens)]
    path = sweep.folder.resolve() / _PROMPTS
    argv += ["--dataset-name", "custom", "--dataset-path", str(path), "--skip-chat-template"]
    return [*argv, "--custom-output-len", str(sweep.output_tokens)]


def point_of(text: str, k: int, load: int) -> ProfilePoint:
    """Read a result of `bench serve`.

    Raises:
        CannotRunError: requests failed, or it does not say what was measured.

    """
    try:
        result = json.loads(text)
        failed = int(result.get("failed") or 0)
        length = result.get("spec_decode_acceptance_length") if k else None
        if failed == 0 and math.isfinite(float(result["output_throughput"])):
            return ProfilePoint(
                k=k,
                requests=load,
                tokens_per_second=result["output_throughput"],
                tokens_per_round=length,
                completed=result["completed"],
            )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
        raise CannotRunError(f"the result of vLLM's bench serve cannot be used at K = {k}: {error!r:.200}") from None
    raise CannotRunError(f"at K = {k}, {load} requests at a time, {failed} requests failed")


def _result(folder: Path, k: int, load: int) -> Path:
    return folder / f"k{k}-requests{load}.json"


def _done(folder: Path, k: int, load: int) -> ProfilePoint | None:
    """Return a kept point; what cannot be read is measured again."""
    try:
        point = ProfilePoint.model_validate_json(_result(folder, k, load).read_bytes())
    except (OSError, ValidationError):
        return None
    return point if (point.k, point.requests) == (k, load) else None


def _time_left(sweep: Sweep, started: float) -> float:
    return sweep.minutes * 60 - (time.monotonic() - started)


def _check(signals: StopSignals) -> None:
    if signals.received is not None:
        raise SystemExit(128 + signals.received)


def _drop(line: str) -> None:
    """Keep an engine's output out of a sweep's: its end is shown if it fails."""
