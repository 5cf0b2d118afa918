"""A drafter exported to vLLM's native layout drafts as its Speculators folder, in the same run on the same runner.

The example pairs of all three methods, and a carrier, whose native form is z-lab's DFlash.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mutations import PAIRS, VERIFIER, Change, both, folder, nothing, put
from oracle import Case, Verdict, example_prompts, judge

from spectool import api

NAMED = {"verifier": "spectool/tiny-verifier"}
MIXED = both(
    put("layer_types", ["sliding_attention", "full_attention"]),
    put("sliding_window", 8),
    put("use_sliding_window", True),
)
EAGLE = {"method": "eagle3", "parallel_drafting": True, "num_speculative_tokens": 5}
DFLASH, DSPARK = ({"method": method, "num_speculative_tokens": 7} for method in ("dflash", "dspark"))

# name: example, change, served as Speculators, served as native, runner
CASES: dict[str, tuple[str, Change, dict[str, Any], dict[str, Any], str]] = {
    "peagle": ("peagle-native", nothing, EAGLE, EAGLE, "v1"),
    "dflash": ("dflash-zlab", nothing, DFLASH, DFLASH, "v1"),
    "dspark": ("dspark-deepspec", nothing, DSPARK, DSPARK, "v2"),
    "carrier": ("dflash-zlab", MIXED, DSPARK, DFLASH, "v2"),
}


@pytest.fixture(scope="module")
def verdicts(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    root = tmp_path_factory.mktemp("export")
    cases: list[Case] = []
    for name, (example, change, there, back, runner) in CASES.items():
        source = folder(PAIRS / example, root / name, change)
        answers = {**NAMED, **({"speculative_tokens": 5} if name == "peagle" else {})}
        plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=answers)
        api.convert(plan, root / f"{name}-there")
        plan = api.plan_conversion(str(root / f"{name}-there"), verifier=str(VERIFIER), settings=NAMED, to="vllm")
        api.convert(plan, root / f"{name}-back")
        for arm, config in (("there", there), ("back", back)):
            cases.append(
                {
                    "id": f"{name} {arm}",
                    "verifier": str(VERIFIER),
                    "speculative_config": {**config, "model": str(root / f"{name}-{arm}")},
                    "runner": runner,
                    "prompts": example_prompts()[: 4 if runner == "v1" else 2],
                    "max_tokens": 24 if runner == "v1" else 16,
                    "engine_args": {"max_num_batched_tokens": 64},
                }
            )
    return judge(engine_python, cases, root)


def figures(verdict: Verdict) -> dict[str, Any]:
    assert verdict["ok"], verdict
    keys = ("runner", "drafts", "accepted", "accepted_per_pos", "digest", "causal", "taps", "mask_token_id")
    return {key: verdict["extra"][key] for key in keys}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_native_folder_drafts_as_the_speculators_one(name: str, verdicts: dict[str, Verdict]) -> None:
    there, back = verdicts[f"{name} there"], verdicts[f"{name} back"]
    assert figures(back) == figures(there)
    assert back["extra"]["accepted"] > 0
    assert back["missing_params"] == []
    assert back["extra"]["unused_tensors"] == []
