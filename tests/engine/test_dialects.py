"""Dialects that vLLM loads natively as well: the converted folder drafts as the folder itself.

The example weights under each layout's own keys and names. z-lab, DeepSpec and native P-EAGLE are in
test_conversion.py, ModelOpt, MiMo and mixed layers in test_carriers.py; layouts vLLM does not load are held to the same
output bytes in tests/unit/dialects/test_relabelled.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mutations import PAIRS, VERIFIER, Change, Config, Tensors, both, folder, put, without
from oracle import Case, Verdict, example_prompts, judge

from spectool import api

SINKS = b"\x80\x3f\x00\x3f\x00\xbf\x00\x40"  # bf16: 1, 0.5, -0.5, 2
SLIDING = both(put("layer_types", ["sliding_attention"] * 2), put("sliding_window", 8), put("use_sliding_window", True))


def with_sinks(config: Config, tensors: Tensors) -> None:
    for layer in range(2):
        tensors[f"layers.{layer}.self_attn.attention_sink_bias"] = ("BF16", (4,), SINKS)


def muse(config: Config, tensors: Tensors) -> None:
    """Muse's names and keys; the published file has no vocab_size, for which vLLM puts Muse's own."""
    config.update(config.pop("dflash_config"))
    config |= {"model_type": "muse_glimmer_assistant", "architectures": ["MuseGlimmerAssistantModel"]}
    for old, new in (("fc.weight", "encoder.fc.weight"), ("hidden_norm.weight", "encoder.output_norm_enc.weight")):
        tensors[new] = tensors.pop(old)


OWN = {"mask_token_id": 511, "target_layer_ids": [0, 2, 4], "attention_sink_bias": True, "causal": True}
NEMOTRON = both(
    SLIDING,
    put("dspark_bonus_anchor", True),
    put("sample_from_anchor", False),
    put("eagle_aux_hidden_state_layer_ids", [1, 3, 5]),
    put("dflash_config", {**OWN, "use_swa": True, "swa_window_size": 8, "sample_from_anchor": False}),
    put("block_size", 8),
    without("lm_head.weight"),
    with_sinks,
)
DUAL = both(
    put("speculators_model_type", "dspark"),
    put("aux_hidden_state_layer_ids", [1, 3, 5]),
    put("sample_from_anchor", True),
    put("dspark_bonus_anchor", False),
)


def gpt_oss(config: Config, tensors: Tensors) -> None:
    """As for gpt-oss: biases on all four projections, yarn by the older keys."""
    config |= {"attention_bias": True, "layer_types": ["full_attention"] * 2, "rope_theta": 10000.0}
    config["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    config.pop("rope_parameters", None)
    for name, (_, shape, _) in list(tensors.items()):
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight")):
            data = bytes((0, 0x3D, 0, 0xBD)) * (shape[0] // 2)  # bf16: 0.03125, -0.03125
            tensors[name.replace(".weight", ".bias")] = ("BF16", (shape[0],), data)


# name: example, change, method, dialect, runner
CASES: dict[str, tuple[str, Change, str, str, str]] = {
    "muse": ("dflash-zlab", both(SLIDING, muse), "dflash", "dflash-muse", "v2"),
    "nested": (
        "dflash-zlab",
        both(put("block_size", ...), put("dflash_config.block_size", 8), SLIDING),
        *("dflash", "dflash-zlab", "v1"),
    ),
    "biases and yarn": ("dflash-zlab", gpt_oss, "dflash", "dflash-zlab", "v1"),
    "interleaved": ("dflash-zlab", put("is_neox_style", False), "dflash", "dflash-zlab", "v1"),
    "nemotron": ("dspark-deepspec", NEMOTRON, "dspark", "dspark-nemotron", "v2"),
    "dual": ("dspark-deepspec", DUAL, "dspark", "dspark-dual", "v2"),
}
NAMED = {"verifier": "spectool/tiny-verifier"}


@pytest.fixture(scope="module")
def verdicts(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    root = tmp_path_factory.mktemp("dialects")
    cases: list[Case] = []
    for name, (example, change, method, dialect, runner) in CASES.items():
        source = folder(PAIRS / example, root / name, change)
        plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=NAMED)
        assert plan.inspection.dialect.file.dialect == dialect
        api.convert(plan, root / f"{name}-out")
        for arm, drafter in (("native", source), ("converted", root / f"{name}-out")):
            cases.append(
                {
                    "id": f"{name} {arm}",
                    "verifier": str(VERIFIER),
                    "speculative_config": {"method": method, "num_speculative_tokens": 7, "model": str(drafter)},
                    "runner": runner,
                    "prompts": example_prompts()[: 8 if runner == "v1" else 2],
                    "max_tokens": 48 if runner == "v1" else 16,
                    "engine_args": {"max_num_batched_tokens": 64},
                }
            )
    return judge(engine_python, cases, root)


def figures(verdict: Verdict) -> dict[str, Any]:
    assert verdict["ok"], verdict
    return {
        key: verdict["extra"][key] for key in ("drafts", "accepted", "accepted_per_pos", "digest", "causal", "taps")
    }


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_converted_folder_drafts_as_the_native_one(name: str, verdicts: dict[str, Verdict]) -> None:
    native, converted = verdicts[f"{name} native"], verdicts[f"{name} converted"]
    assert figures(converted) == figures(native)
    assert converted["extra"]["accepted"] > 0
    assert converted["missing_params"] == []
    assert converted["extra"]["unused_tensors"] == []
