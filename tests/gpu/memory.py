"""On a GPU: start what a plan says and hold the plan against what vLLM then counts; optionally time decoding.

    python tests/gpu/memory.py --engine PYTHON --gpu h200 --pair qwen3-8b-peagle --out FILE [--time 1 32]

A production pair (`examples/production`) is planned by `spectool serve --dry-run` for one GPU of that name and started
in the engine with the planned flags. Nothing is downloaded: the verifier's weights are made up by vLLM, the drafter's
are a file of the published shapes. Held against the plan: weights, overhead, the KV cache in bytes and in tokens.

`--time` measures decoding steps at these numbers of requests with the drafter and without, at a set acceptance length.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HARNESS = Path(__file__).parent / "harness"
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from production import NAMES, make_production  # noqa: E402 - after the path is set

GIB = 2**30


def plan(drafter: Path, verifier: Path, gpu: str, engine_flags: list[str]) -> dict[str, Any]:
    """Plan for one GPU, as a user would."""
    words = ["serve", str(drafter), "--verifier", str(verifier), "--gpus", f"{gpu}:1", "--dry-run", "--format", "json"]
    command = [sys.executable, "-m", "spectool", *words, *(["--", *engine_flags] if engine_flags else [])]
    # An engine that is found would be asked for its release; plans are for the newest one recorded.
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return dict(json.loads(done.stdout))


def start(engine: str, question: dict[str, Any], log: Path, timeout: float) -> dict[str, Any]:
    """Start the engine on the plan's words; return its last answer, or why there is none."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with log.open("w") as stream:
        try:
            done = subprocess.run(
                [engine, str(HARNESS / "start_engine.py")], input=json.dumps(question), stdout=stream,
                stderr=subprocess.STDOUT, text=True, check=False, env=environment, timeout=timeout,
            )  # fmt: skip
            ended = f"exit {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"no end within {timeout:g} s"
    lines = log.read_text(errors="replace").splitlines()
    answers = [line for line in lines if line.startswith("ANSWER ")]
    if not answers:
        return {"failed": ended, "log": [line[:300] for line in lines[-40:]]}
    found = dict(json.loads(answers[-1].removeprefix("ANSWER ")))
    return found if ended == "exit 0" else {**found, "failed": ended, "log": [line[:300] for line in lines[-25:]]}


def held_against(planned: dict[str, Any], found: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of (what, planned, measured, within)."""
    document = planned["plan"]
    memory, cache = document["memory"], document["kv_cache"]
    weights = sum(line["bytes"] for line in memory["lines"] if line["what"] != "drafter buffers")
    buffers = sum(line["bytes"] for line in memory["lines"] if line["what"] == "drafter buffers")
    overhead = found["requested"] - found["weights"] - found["kv_cache"] - buffers
    spread, tokens = memory["overhead"], {name: entry["tokens"] for name, entry in cache["by_overhead"].items()}
    rows = [
        row("memory of the GPU", memory["total"], found["total"], near(found["total"], memory["total"], 0.005)),
        row("vLLM may use", memory["budget"], found["requested"], near(found["requested"], memory["budget"], 0.005)),
        row("weights", weights, found["weights"], near(found["weights"], weights, 0.01)),
        row("overhead", [spread[name] for name in ("low", "typical", "high")], overhead,
            spread["low"] <= overhead <= spread["high"]),
    ]  # fmt: skip
    if found["kv_cache_tokens"]:
        allowed = [tokens[name] for name in ("high", "typical", "low")]
        inside = allowed[0] <= found["kv_cache_tokens"] <= allowed[2]
        rows.append(
            {"what": "KV cache, tokens", "planned": allowed, "measured": found["kv_cache_tokens"], "within": inside}
        )
    return rows


def near(one: int, other: int, share: float) -> bool:
    return abs(one / other - 1) < share


def row(what: str, planned: int | list[int], measured: int, within: bool) -> dict[str, Any]:
    values = [round(value / GIB, 3) for value in (planned if isinstance(planned, list) else [planned])]
    return {"what": f"{what}, GiB", "planned": values, "measured": round(measured / GIB, 3), "within": within}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, help="an interpreter in which a CUDA build of vLLM imports")
    parser.add_argument("--gpu", required=True, help="this machine's GPU, as `spectool serve --gpus` names it")
    parser.add_argument("--pair", choices=NAMES, required=True)
    parser.add_argument("--time", type=int, nargs="*", default=[], metavar="N", help="numbers of requests to time")
    parser.add_argument("--tokens", type=int, default=256, help="tokens to decode per request when timing")
    parser.add_argument("--acceptance", type=float, help="acceptance length to time with (default: real)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds allowed for each start of the engine")
    parser.add_argument("--out", type=Path, help="write plan and figures there, as JSON")
    parser.add_argument("flags", nargs="*", help="after --: further flags of vllm serve")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        pair = make_production(options.pair, Path(place))
        planned = plan(pair.drafter, pair.verifier, options.gpu, options.flags)
        question = {"argv": planned["argv"][2:], "timing": options.time, "tokens": options.tokens}
        log = Path(place) / "engine.log"
        record: dict[str, Any] = {"pair": options.pair, "argv": planned["argv"], "plan": planned["plan"]}
        found = start(options.engine, {**question, "synthetic": options.acceptance}, log, options.timeout)
        record["measured"] = found
        record["lines"] = telling(log)
        if options.time and "failed" not in found:
            alone = without_drafter(question["argv"])
            record["without_drafter"] = start(
                options.engine, {**question, "argv": alone, "synthetic": None}, log, options.timeout
            )
    good = "failed" not in found
    if "weights" in found:
        record["rows"] = held_against(planned, found)
        good &= all(entry["within"] for entry in record["rows"])
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for entry in record.get("rows", []):
        print(f"{options.pair:22} {entry['what']:24} planned {entry['planned']} measured {entry['measured']}"
              f"{'' if entry['within'] else '  OUTSIDE'}")  # fmt: skip
    for name in ("measured", "without_drafter"):
        for entry in record.get(name, {}).get("decoding", []):
            print(f"{options.pair:22} {name:16} {entry}")
        if "failed" in record.get(name, {}):
            print(f"{options.pair:22} {name}: {record[name]['failed']}\n" + "\n".join(record[name]["log"]))
    return 0 if good else 1


def telling(log: Path) -> list[str]:
    """Keep the lines of vLLM's log that speak of memory and of what it chose."""
    words = ("KV cache", "concurrency", "Model loading took", "Graph capturing", "attention backend", "CUDA graph")
    lines = log.read_text(errors="replace").splitlines()
    return [line[:400] for line in lines if any(word.lower() in line.lower() for word in words)][:40]


def without_drafter(words: list[str]) -> list[str]:
    at = words.index("--speculative-config")
    return words[:at] + words[at + 2 :]


if __name__ == "__main__":
    sys.exit(main())
