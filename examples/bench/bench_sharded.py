"""Does memory stay small for a large source in shards? Memory and bytes written for a 10 GB drafter.

    python examples/bench/bench_sharded.py [--gigabytes 10] [--hub] [--folder SOMEWHERE_ON_A_DISK]

The source's files are sparse, so it takes no space; the output takes all of it. With --hub the source stands on a Hub
on the loopback, and its bytes are written twice: as they are fetched, so that a broken download can go on, and into the
output. Exit code 1 when a limit is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_convert import (
    FRAME,
    MEMORY_LIMIT,
    REPORTING,
    ROOT,
    WRITE_SLACK,
    Verdict,
    drafter_config,
    environment,
    header_of,
    layer_shapes,
)

SHARD_BYTES = 2_000_000_000


def make_source(folder: Path, gigabytes: float) -> int:
    """Write config, index and sparse shards; returns the bytes of the weight files."""
    folder.mkdir()
    _, per_layer = header_of(layer_shapes(0))
    layers = max(1, round(gigabytes * 1e9 / per_layer))
    (folder / "config.json").write_text(json.dumps(drafter_config(layers), indent=2))
    groups = [dict(FRAME)]
    for layer in range(layers):
        if header_of(groups[-1] | layer_shapes(layer))[1] > SHARD_BYTES:
            groups.append({})
        groups[-1] |= layer_shapes(layer)
    weight_map, total, on_disk = {}, 0, 0
    for number, shapes in enumerate(groups, 1):
        name = f"model-{number:05d}-of-{len(groups):05d}.safetensors"
        header, nbytes = header_of(shapes)
        with (folder / name).open("wb") as stream:
            stream.write(header)
            stream.truncate(len(header) + nbytes)
        weight_map |= dict.fromkeys(shapes, name)
        total += nbytes
        on_disk += len(header) + nbytes
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return on_disk


def convert(source: str, out: Path, report: Path, extra: dict[str, str]) -> tuple[dict[str, int], float]:
    """Run one conversion; returns what it reported on itself, and seconds."""
    command = [sys.executable, "-c", REPORTING.replace("REPORT", repr(str(report)), 1), "convert", source, str(out)]
    start = time.monotonic()
    done = subprocess.run(
        [*command, "--set", "verifier=Qwen/Qwen3-8B"],
        env=environment() | extra,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command[3:])}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(report.read_text()), time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10, help="size of the source")
    parser.add_argument("--hub", action="store_true", help="read it from a Hub on the loopback")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build", help="a folder on a disk with room for the output"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    verdict = Verdict()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as name:
        work = Path(name)
        size = make_source(work / "drafter", options.gigabytes)
        shards = len(list((work / "drafter").glob("*.safetensors")))
        print(f"drafter: {size / 1e9:.2f} GB in {shards} shards{', on a Hub' if options.hub else ''}")
        if options.hub:
            sys.path[:0] = [str(ROOT), str(ROOT / "tests/support")]
            from loopback_hub import LoopbackHub, SparseFile  # noqa: PLC0415 - only with --hub

            with LoopbackHub() as hub:
                files = {path.name: SparseFile(path) for path in (work / "drafter").iterdir()}
                hub.add("org/drafter", {**files})
                extra = {"HF_ENDPOINT": hub.url, "HF_HOME": str(work / "hf"), "HF_HUB_OFFLINE": "0"}
                found, seconds = convert("org/drafter", work / "out", work / "report.json", extra)
        else:
            found, seconds = convert(str(work / "drafter"), work / "out", work / "report.json", {})
        written = sum(path.stat().st_size for path in (work / "out").iterdir())
    times = 2 if options.hub else 1
    print(f"  {seconds:.0f} s")
    verdict.line(
        "peak memory",
        f"{found['memory'] / 1e6:.0f} MB",
        f"<= {MEMORY_LIMIT / 1e6:.0f} MB",
        holds=found["memory"] <= MEMORY_LIMIT,
    )
    verdict.line(
        "written / output",
        f"{found['written'] / written:.3f}",
        f"<= {times} + {WRITE_SLACK / 1e6:.0f} MB",
        holds=found["written"] <= times * written + WRITE_SLACK,
    )
    if verdict.failed:
        sys.exit(f"\nfailed: {', '.join(verdict.failed)}")


if __name__ == "__main__":
    os.umask(0o077)
    main()
