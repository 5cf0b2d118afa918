"""Ask vLLM itself about drafters: run the engine oracle with an engine's own interpreter."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).resolve().parents[1] / "engine" / "harness"
TRITON_ON_CPU = HARNESS / "triton_on_cpu"

Case = dict[str, Any]
Verdict = dict[str, Any]


class OracleError(Exception):
    """The oracle itself ended without verdicts."""


def judge(
    engine_python: str | Path, cases: Iterable[Case], folder: Path, *, timeout: float = 300
) -> dict[str, Verdict]:
    """Run the cases in one oracle run and return the verdicts by case id; harness/ORACLE.md describes both.

    Args:
        engine_python: an interpreter in which vLLM imports.
        cases: give paths in them as absolute ones, or relative to `folder`.
        folder: where the list of cases and the record of the run are kept.
        timeout: seconds allowed per case.

    """
    listing, record = folder / "cases.jsonl", folder / "verdicts.jsonl"
    listing.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    command = [str(engine_python), str(HARNESS / "engine_oracle.py"), str(listing), f"--timeout={timeout:g}"]
    # A caller's PYTHONPATH is meant for another interpreter. Progress (stderr) passes through.
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    with record.open("wb") as output:
        run = subprocess.run(command, stdout=output, env=environment, check=False)
    if run.returncode != 0:
        raise OracleError(f"the oracle ended with exit {run.returncode}; see its messages above and {listing}")
    return {verdict["id"]: verdict for verdict in map(json.loads, record.read_text(encoding="utf-8").splitlines())}


def example_prompts() -> list[list[int]]:
    """Ten text prompts as token ids of the example verifier (harness/prompts.py made them)."""
    rows = json.loads((HARNESS / "prompts.json").read_text(encoding="utf-8"))
    return [row["ids"] for row in rows]


def acceptance_length(verdict: Verdict) -> float:
    """Tokens per verification round, the bonus token included."""
    extra = verdict["extra"]
    return 1 + extra["accepted"] / extra["drafts"]
