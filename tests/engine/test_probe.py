"""`spectool probe` with the real vLLM. One pair: the other methods differ in the drafter, not in what a probe does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FLAGS = ["--enforce-eager", "--max-model-len", "512", "--dtype", "bfloat16", "--max-num-seqs", "8"]


def test_a_good_pair_speculates_and_changes_nothing(root: Path, pairs: Path, engine_python: Path) -> None:
    argv = [sys.executable, "-m", "spectool", "probe", str(pairs / "peagle-native"), "--verifier"]
    argv += [str(pairs / "verifier"), "--set", "speculative_tokens=5", "--engine-python", str(engine_python)]
    argv += ["--max-tokens", "48", "--format", "json", "--", *FLAGS]
    env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    # Batches form by chance, so a near-tie may flip even here; exit 0 says that no clear token did.
    assert told["outputs"]["equal"] + len(told["outputs"]["differing"]) == told["prompts"] == 12
    seen = told["acceptance"]
    assert seen["acceptance_length"] > 1.2
    assert seen["acceptance_length"] == 1 + seen["accepted"] / seen["drafts"]
    assert seen["draft_tokens"] == 5 * seen["drafts"]
    assert len(seen["per_position"]) == 5
    assert sum(seen["per_position"]) == pytest.approx(seen["acceptance_length"] - 1)
    # Every round yields its accepted tokens and one more.
    assert seen["drafts"] + seen["accepted"] <= 12 * 48 + 12 * 5
    assert told["tokens_per_second"]["with"] > 0
