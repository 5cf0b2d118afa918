# ruff: noqa: E501 - tables: one fault, one line
"""What a finding tells people to do is about the fault at hand, not about the rule's most common one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from faults import LAYER, QWEN3_SWA
from mutations import NATIVE, PAIRS, VERIFIER, Change, both, folder, put, with_int64, with_zeros, without

from spectool import api

K5 = {"speculative_tokens": 5}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 64.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 64,
}
NO_HEAD = both(
    put("markov_rank", 0),
    put("markov_head_type", ...),
    put("enable_confidence_head", False),
    without(
        "markov_head.markov_w1.weight",
        "markov_head.markov_w2.weight",
        "confidence_head.proj.weight",
        "confidence_head.proj.bias",
    ),
)


def specforge(config: dict[str, object], tensors: object) -> None:
    """DeepSpec's file with its heads where SpecForge writes them."""
    moved = (
        "mask_token_id",
        "target_layer_ids",
        "markov_rank",
        "markov_head_type",
        "enable_confidence_head",
        "confidence_head_with_markov",
    )
    config["architectures"], config["model_type"] = ["DSparkDraftModel"], "qwen3"
    config["dflash_config"] = {"projector_type": "dspark", **{key: config.pop(key) for key in moved}}


# layout, method, change, release, code, what the advice says, what it must not say
ADVICE: list[tuple[str, str, Change, str, str, str, str]] = [
    ("native", "dflash", QWEN3_SWA, "0.24.0", "ATT001", "Use vLLM 0.26.0 or newer, which runs it as trained.", "sliding_window_non_causal"),
    ("native", "dflash", put("is_causal", True), "0.27.1", "ATT001", "Use vLLM 0.28.0 or newer", "--set"),
    ("native", "dflash", put("rope_parameters.rope_type", "default"), "0.21.0", "AUX005", "Use vLLM 0.22.1 or newer", "convert"),
    ("converted", "dflash", put(f"{LAYER}.is_causal", True), "0.33.0", "ATT001", "`sliding_window_non_causal: true` and `transformer_layer_config.is_causal: false`. If the drafter really was trained the other way, say it with --set causal=true.", "newer"),
    ("converted", "dspark", put(f"{LAYER}.is_causal", True), "0.33.0", "ATT001", "Write `transformer_layer_config.is_causal: false`.", "sliding_window_non_causal"),
    ("converted", "dflash", put(f"{LAYER}.rope_parameters.partial_rotary_factor", 0.5), "0.33.0", "ROP002", "--set rope.partial=0.5", "is_neox_style"),
    ("native", "dflash", put("rope_is_neox_style", False), "0.33.0", "ROP002", "Write `is_neox_style: false` in config.json", "rope.partial"),
    ("converted", "dflash", put(f"{LAYER}.logit_scale", 0.5), "0.33.0", "EMB001", "--set logit_scale=0.5", "--verifier"),
    ("native", "dflash", put("dflash_config.input_embedding_scale", 8.0), "0.33.0", "EMB001", "spectool convert --verifier", "--set"),
    ("native", "dspark", NO_HEAD, "0.33.0", "HED006", "it adds a Markov head of zeros", "as trained"),
    ("native", "dspark", specforge, "0.33.0", "HED002", "at the top of config.json", "zeros"),
    ("native", "peagle", both(put("draft_vocab_size", ...), with_zeros("lm_head.weight", 100, 128), with_int64("d2t", [0] * 100)), "0.33.0", "VOC003", "Write `draft_vocab_size: 100`.", "Remove"),
    ("native", "peagle", with_int64("d2t", [0] * 512), "0.33.0", "VOC003", "Remove d2t", "Write"),
    ("native", "peagle", put("draft_vocab_size", 513), "0.33.0", "VOC002", "Correct vocab_size", "complete checkpoint"),
]  # fmt: skip


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The converted folder of a method's example pair."""
    root = tmp_path_factory.mktemp("converted")

    @cache
    def make(method: str) -> Path:
        plan = api.plan_conversion(
            str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), settings={"verifier": "spectool/tiny-verifier"}
        )
        api.convert(plan, root / method)
        return root / method

    return make


@pytest.mark.parametrize(("layout", "method", "change", "release", "code", "says", "never"), ADVICE)
def test_advice_is_about_the_fault(
    layout: str,
    method: str,
    change: Change,
    release: str,
    code: str,
    says: str,
    never: str,
    tmp_path: Path,
    converted: Callable[[str], Path],
) -> None:
    base = PAIRS / NATIVE[method] if layout == "native" else converted(method)
    drafter = folder(base, tmp_path / "drafter", change)
    settings = K5 if method == "peagle" else None
    report = api.validate(str(drafter), verifier=str(VERIFIER), settings=settings, engine=release)
    advice = [finding.fix for finding in report.findings if finding.code == code]
    assert len(advice) == 1
    assert says in advice[0]
    assert never not in advice[0]


def test_a_question_offers_both_values(tmp_path: Path) -> None:
    drafter = folder(PAIRS / NATIVE["dflash"], tmp_path / "drafter", put("rope_parameters", YARN))
    report = api.validate(str(drafter), verifier=str(VERIFIER))
    (finding,) = [item for item in report.findings if item.code == "CFG005"]
    assert finding.message.endswith(": 1, 1.41588831 (--set rope.attention_factor=1)")


def test_the_base_of_the_class_is_settled_by_an_answer(tmp_path: Path) -> None:
    verifier = folder(VERIFIER, tmp_path / "verifier", put("rope_parameters.rope_theta", 1e6))
    drafter = str(PAIRS / NATIVE["dflash"])
    said = [
        [item.code for item in api.validate(drafter, verifier=str(verifier), settings=settings).findings]
        for settings in ({}, {"rope.theta": 10000.0})
    ]
    assert said == [["ROP003"], []]


def test_a_base_that_one_kind_of_layer_has_is_the_verifiers(tmp_path: Path) -> None:
    nested = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    verifier = folder(VERIFIER, tmp_path / "verifier", put("rope_parameters", nested))
    assert api.validate(str(PAIRS / NATIVE["dflash"]), verifier=str(verifier)).findings == ()
