"""What Speculators `dflash` cannot hold drafts, carried as `dspark`, exactly as the native folder does in vLLM.

The example drafter's weights under other attention: native, carried, and where it can be forced into it as plain
Speculators `dflash`. All in one run on model runner V2, the only one that runs DSpark.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from checkpoints import read_back, write_checkpoint_folder
from mutations import MIXED, PAIRS, VERIFIER, Change, both, folder, put, without
from oracle import Case, Verdict, example_prompts, judge

from spectool import api

LAYER = "transformer_layer_config"
SINKS = b"\x80\x3f\x00\x3f\x00\xbf\x00\x40"  # bf16: 1, 0.5, -0.5, 2


def with_sinks(config: dict[str, Any], tensors: dict[str, Any]) -> None:
    """One sink per head and layer."""
    for layer in range(2):
        tensors[f"layers.{layer}.self_attn.attention_sink_bias"] = ("BF16", (4,), SINKS)


def own(**keys: Any) -> Change:
    """Keys of dflash_config."""
    return both(*(put(f"dflash_config.{key}", value) for key, value in keys.items()))


USE_SWA = own(use_swa=True, swa_window_size=8, attention_sink_bias=True)
MODELOPT = both(USE_SWA, with_sinks)
MIMO = both(USE_SWA, own(attention_value_scale=0.612), with_sinks)
HEADLESS = both(
    put("markov_rank", 0),
    put("markov_head_type", ...),
    put("enable_confidence_head", False),
    put("confidence_head_with_markov", ...),
    without("markov_head.markov_w1.weight", "markov_head.markov_w2.weight"),
    without("confidence_head.proj.weight", "confidence_head.proj.bias"),
)


def zero_head(config: dict[str, Any], tensors: dict[str, Any]) -> None:
    """The example DSpark drafter with its Markov head set to zero, in its own layout."""
    put("enable_confidence_head", False)(config, tensors)
    without("confidence_head.proj.weight", "confidence_head.proj.bias")(config, tensors)
    for part in ("w1", "w2"):
        dtype, shape, data = tensors[f"markov_head.markov_{part}.weight"]
        tensors[f"markov_head.markov_{part}.weight"] = (dtype, shape, bytes(len(data)))


def converted(source: Path, out: Path) -> api.ConversionPlan:
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings={"verifier": "spectool/tiny-verifier"})
    api.convert(plan, out)
    return plan


def as_plain_dflash(carrier: Path, out: Path) -> Path:
    """The carrier's weights as Speculators `dflash`, with the causality that all its layers can share."""
    config = json.loads((carrier / "config.json").read_text())
    config |= {"speculators_model_type": "dflash", "architectures": ["DFlashDraftModel"]}
    config["sliding_window_non_causal"] = True
    config[LAYER]["is_causal"] = False
    tensors = {name: item for name, item in read_back(carrier / "model.safetensors").items() if "markov" not in name}
    return write_checkpoint_folder(out, config, tensors)


def case(name: str, drafter: Path, method: str) -> Case:
    return {
        "id": name,
        "verifier": str(VERIFIER),
        "speculative_config": {"method": method, "num_speculative_tokens": 7, "model": str(drafter)},
        "runner": "v2",
        "prompts": example_prompts()[:2],
        "max_tokens": 16,
        "engine_args": {"max_num_batched_tokens": 64},  # the dummy run at start has this size: seconds, interpreted
    }


@pytest.fixture(scope="module")
def verdicts(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    root = tmp_path_factory.mktemp("carriers")
    cases = []
    for name, change in {"mixed": MIXED, "mimo": MIMO, "modelopt": MODELOPT}.items():
        source = folder(PAIRS / "dflash-zlab", root / name, change)
        plan = converted(source, root / f"{name}-out")
        cases += [case(f"{name} native", source, "dflash")]
        cases += [case(f"{name} converted", root / f"{name}-out", str(plan.output.config["speculators_model_type"]))]
    cases += [case("mixed as dflash", as_plain_dflash(root / "mixed-out", root / "plain"), "dflash")]
    headless = folder(PAIRS / "dspark-deepspec", root / "headless", HEADLESS)
    converted(headless, root / "headless-out")
    cases += [case("headless converted", root / "headless-out", "dspark")]
    cases += [case("headless native", folder(PAIRS / "dspark-deepspec", root / "zero", zero_head), "dspark")]
    found = judge(engine_python, cases, root)
    shutil.rmtree(root, ignore_errors=True)
    return found


def figures(verdict: Verdict) -> dict[str, Any]:
    assert verdict["ok"], verdict
    return {key: verdict["extra"][key] for key in ("drafts", "accepted", "accepted_per_pos", "digest")}


@pytest.mark.parametrize("name", ["mixed", "mimo", "modelopt", "headless"])
def test_the_converted_folder_drafts_as_the_native_one(name: str, verdicts: dict[str, Verdict]) -> None:
    native, output = verdicts[f"{name} native"], verdicts[f"{name} converted"]
    assert figures(output) == figures(native)
    assert output["extra"]["accepted"] > 0
    assert output["missing_params"] == []
    assert output["extra"]["unused_tensors"] == []
    assert output["extra"]["causal"] == native["extra"]["causal"]


def test_which_kind_holds_what(verdicts: dict[str, Verdict]) -> None:
    methods = {name: verdicts[f"{name} converted"]["extra"]["method"] for name in ("mixed", "mimo", "modelopt")}
    assert methods == {"mixed": "dspark", "mimo": "dspark", "modelopt": "dflash"}


def test_plain_dflash_would_have_drafted_otherwise(verdicts: dict[str, Verdict]) -> None:
    plain, native = verdicts["mixed as dflash"], verdicts["mixed native"]
    assert plain["extra"]["causal"] == [False, False]
    assert native["extra"]["causal"] == [True, False]
    assert figures(plain) != figures(native)
    assert plain["extra"]["digest"] == native["extra"]["digest"]  # greedy output never depends on the drafter
