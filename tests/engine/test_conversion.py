"""The engine is the judge: the converted folder drafts exactly as the native one, and drafting changes no output.

Native, converted and without a drafter are measured in one run on one machine, with the runner vLLM chooses wherever
Triton works. Figures differ between kinds of CPU, so stored ones are printed beside, never asserted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from oracle import Case, Verdict, acceptance_length, example_prompts, judge

# Sized for the V2 runner, whose kernels run in Triton's interpreter: about three minutes for all cases on two cores.
MAX_TOKENS = 32
HINTS = json.loads((Path(__file__).parent / "harness" / "hints.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Pair:
    folder: str
    native: dict[str, Any]
    answers: tuple[str, ...] = ()
    taps: tuple[int, ...] = (1, 3, 5)
    causal: tuple[bool, ...] | None = None


PAIRS = [
    Pair(
        "peagle-native",
        {"method": "eagle3", "parallel_drafting": True, "num_speculative_tokens": 5},
        answers=("--set", "speculative_tokens=5"),
    ),
    Pair("dflash-zlab", {"method": "dflash", "num_speculative_tokens": 7}, causal=(False, False)),
    Pair("dspark-deepspec", {"method": "dspark", "num_speculative_tokens": 7}, causal=(False, False)),
]
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.folder)


@pytest.fixture(scope="module")
def verdicts(engine_python: Path, pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    folder = tmp_path_factory.mktemp("conversion")
    cases = [case("none", pairs, None)]
    for pair in PAIRS:
        converted = folder / pair.folder
        convert(pairs / pair.folder, converted, pairs / "verifier", *pair.answers)
        for layout, drafter in ("native", pairs / pair.folder), ("converted", converted):
            cases.append(case(f"{pair.folder} {layout}", pairs, {**pair.native, "model": str(drafter)}))
    return judge(engine_python, cases, folder)


def case(name: str, pairs: Path, speculative_config: dict[str, Any] | None) -> Case:
    return {
        "id": name,
        "verifier": str(pairs / "verifier"),
        "speculative_config": speculative_config,
        "runner": "auto",
        "prompts": example_prompts(),
        "max_tokens": MAX_TOKENS,
        "engine_args": {"max_num_batched_tokens": 256},  # the dummy run at start has this size: seconds, interpreted
    }


def convert(source: Path, output: Path, verifier: Path, *answers: str) -> None:
    command = [sys.executable, "-m", "spectool", "convert", str(source), str(output), "--verifier", str(verifier)]
    command += ["--set", "verifier=spectool/tiny-verifier", *answers]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert run.returncode == 0, f"{' '.join(command)}\n{run.stdout}\n{run.stderr}"


@each_pair
def test_converted_drafts_as_native(
    pair: Pair, verdicts: dict[str, Verdict], capsys: pytest.CaptureFixture[str]
) -> None:
    native, converted, none = verdicts[f"{pair.folder} native"], verdicts[f"{pair.folder} converted"], verdicts["none"]
    for verdict in native, converted, none:
        assert verdict["ok"], verdict
    figures = ("runner", "drafts", "accepted", "accepted_per_pos", "digest")
    assert {key: converted["extra"][key] for key in figures} == {key: native["extra"][key] for key in figures}
    assert converted["extra"]["accepted"] > 0  # a drafter that never hits would be equal too
    assert converted["extra"]["digest"] == none["extra"]["digest"]
    with capsys.disabled():
        print(f"\n{pair.folder}: {beside_hint(pair.folder, converted)}")


@each_pair
def test_every_parameter_comes_from_the_file(pair: Pair, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[f"{pair.folder} converted"]
    assert verdict["missing_params"] == []
    assert verdict["extra"]["unused_tensors"] == verdict["extra"]["overwritten_tensors"] == []


@each_pair
def test_the_engine_reads_what_the_drafter_was_trained_with(pair: Pair, verdicts: dict[str, Verdict]) -> None:
    extra = verdicts[f"{pair.folder} converted"]["extra"]
    assert extra["method"] == pair.native["method"]
    assert extra["num_speculative_tokens"] == pair.native["num_speculative_tokens"]
    assert extra["parallel_drafting"] is True
    assert extra["taps"] == list(pair.taps)
    assert extra["mask_token_id"] == 511
    assert extra["causal"] == (None if pair.causal is None else list(pair.causal))


def beside_hint(folder: str, verdict: Verdict) -> str:
    extra, hint = verdict["extra"], HINTS[folder]
    differs = (
        "" if extra["accepted_per_pos"] == hint["accepted_per_pos"] else f"; stored for another kind of CPU: {hint}"
    )
    return f"acceptance length {acceptance_length(verdict):.3f}, {extra['drafts']} drafts{differs}"
