"""Quantised weights: the converted folder drafts as the native one, in a form that vLLM's CPU build runs.

INT8 of compressed-tensors; FP8 has no kernel there, and `make dialects` asks about DSpark.
"""

from __future__ import annotations

from pathlib import Path

from mutations import PAIRS, VERIFIER, folder
from oracle import Case, example_prompts, judge
from quantise import int8

from spectool import api


def test_the_converted_folder_drafts_as_the_native_one(engine_python: Path, tmp_path: Path) -> None:
    source, out = folder(PAIRS / "dflash-zlab", tmp_path / "native", int8()), tmp_path / "converted"
    named = {"verifier": "spectool/tiny-verifier"}
    api.convert(api.plan_conversion(str(source), verifier=str(VERIFIER), settings=named), out)
    cases: list[Case] = [
        {
            "id": drafter.name,
            "verifier": str(VERIFIER),
            "speculative_config": {"method": "dflash", "num_speculative_tokens": 7, "model": str(drafter)},
            "runner": "v1",
            "prompts": example_prompts()[:2],
            "max_tokens": 16,
            "engine_args": {"max_num_batched_tokens": 64},
        }
        for drafter in (source, out)
    ]
    verdicts = judge(engine_python, cases, tmp_path)
    native, converted = verdicts["native"], verdicts["converted"]
    assert native["ok"], native
    assert converted["ok"], converted
    for key in ("drafts", "accepted", "accepted_per_pos", "digest", "causal", "taps"):
        assert converted["extra"][key] == native["extra"][key], key
    assert native["extra"]["accepted"] > 0
    # Scales of a KV cache, which a quantised checkpoint may have and this one has not.
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in converted["missing_params"]} == {"attn"}
    assert converted["missing_params"] == native["missing_params"]
    assert converted["extra"]["unused_tensors"] == []
