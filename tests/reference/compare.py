"""Compare source and converted folders through the reference forward.

    python compare.py JOBS.json > RESULTS.json

A job names a producer and three folders (`source`, `converted`, `verifier`). Its result holds how far logits and
confidences are apart (infinite where their shapes differ), whether the drafts are the same, and K of both.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import as_served
import torch
from as_trained import PRODUCERS
from folders import Folder, Verifier
from forward import Drafted, Situation, draft
from torch import Tensor

SEEDS = (1, 2)


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference of two tensors; infinite for different shapes."""
    if one.shape != other.shape:
        return math.inf
    return float((one - other).abs().max()) if one.numel() else 0.0


def steps(job: dict[str, Any]) -> list[tuple[Drafted, Drafted]]:
    verifier = Verifier.read(Path(job["verifier"]))
    trained = PRODUCERS[job["producer"]](Folder.read(Path(job["source"])), verifier, job["answers"])
    served = as_served.read(Folder.read(Path(job["converted"])), verifier)
    found = []
    for seed in SEEDS:
        situation = Situation.random(verifier.layers, verifier.width, len(verifier.embedding), seed)
        found.append((draft(trained, situation), draft(served, situation)))
    return found


def compare(job: dict[str, Any]) -> dict[str, Any]:
    pairs = steps(job)
    return {
        "logits": max(apart(one.logits, other.logits) for one, other in pairs),
        "confidence": max(apart(one.confidence, other.confidence) for one, other in pairs),
        "confidences": [len(item.confidence) for item in pairs[0]],
        "tokens": [len(item.tokens) for item in pairs[0]],
        "same_drafts": all(one.tokens.equal(other.tokens) for one, other in pairs),
        "spread": min(float(one.logits.std()) for one, _ in pairs),
    }


def main() -> None:
    torch.set_num_threads(1)  # tiny matrices: threads only wait for each other
    jobs = json.loads(Path(sys.argv[1]).read_text())
    results: dict[str, Any] = {}
    for job in jobs:
        try:
            results[job["id"]] = compare(job)
        except (AssertionError, KeyError, RuntimeError, IndexError) as error:  # a planted fault may stop the loader
            results[job["id"]] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
