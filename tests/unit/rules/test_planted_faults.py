# ruff: noqa: E501 - tables: one fault, one line
"""One fault planted in a good pair: exactly its own rule speaks. And near misses: nothing does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from mutations import NATIVE, PAIRS, VERIFIER, Change, both, folder, nothing, put, with_int64, with_zeros, without

from spectool import api

K5 = {"speculative_tokens": 5}
LAYER = "transformer_layer_config"


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The converted folder of a method's example pair."""
    root = tmp_path_factory.mktemp("converted")

    @cache
    def make(method: str) -> Path:
        settings = {"verifier": "spectool/tiny-verifier", **(K5 if method == "peagle" else {})}
        plan = api.plan_conversion(str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), settings=settings)
        api.convert(plan, root / method)
        return root / method

    return make


def codes(drafter: Path, verifier: Path = VERIFIER) -> set[str]:
    """The codes of all errors and warnings; notes leave the exit code alone."""
    native_peagle = (drafter / "config.json").read_text().find("ptd_token_id") > 0
    report = api.validate(str(drafter), verifier=str(verifier), settings=K5 if native_peagle else None)
    return {finding.code for finding in report.findings if finding.severity != "note"}


GATE = both(with_zeros("markov_head.gate_proj.weight", 32, 160), with_zeros("markov_head.gate_proj.bias", 32))
CAUSAL = both(put("sliding_window_non_causal", False), put(f"{LAYER}.is_causal", ...))
SLIDING = ["sliding_attention", "sliding_attention"]
QWEN3_SWA = both(put("layer_types", SLIDING), put("sliding_window", 64), put("use_sliding_window", True))

NATIVE_FAULTS = [
    ("dflash", "aux out of range", put("dflash_config.target_layer_ids", [0, 2, 6]), {"AUX001"}),
    ("dflash", "aux doubled", put("dflash_config.target_layer_ids", [0, 2, 2]), {"AUX003"}),
    ("dflash", "aux fewer than fc", put("dflash_config.target_layer_ids", [0, 2]), {"AUX004"}),
    ("dflash", "aux more than fc", put("dflash_config.target_layer_ids", [0, 1, 2, 4]), {"AUX004"}),
    ("dflash", "aux missing", put("dflash_config.target_layer_ids", ...), {"AUX002"}),
    ("dflash", "aux unsorted", put("dflash_config.target_layer_ids", [4, 0, 2]), {"AUX005"}),
    ("dflash", "aux negative", put("dflash_config.target_layer_ids", [-2, 2, 4]), {"AUX001"}),
    ("dflash", "mask missing", put("dflash_config.mask_token_id", ...), {"MSK001"}),
    ("dflash", "mask conflict", put("mask_token_id", 5), {"MSK001"}),
    ("dflash", "mask at the end of the vocabulary", put("dflash_config.mask_token_id", 512), {"MSK002"}),
    ("dflash", "mask negative", put("dflash_config.mask_token_id", -1), {"MSK002"}),
    ("dflash", "partial rotary", put("rope_parameters.partial_rotary_factor", 0.25), {"ROP002"}),
    ("dflash", "partial rotary at the top", put("partial_rotary_factor", 0.25), {"ROP002"}),
    ("dflash", "theta twice", put("rope_theta", 5e5), {"ROP001"}),
    ("dflash", "rope nested", put("rope_parameters", {"full_attention": {"rope_theta": 1e4}}), {"ROP001"}),
    ("dflash", "no norm", without("norm.weight"), {"TEN001"}),
    ("dflash", "no hidden norm", without("hidden_norm.weight"), {"TEN001"}),
    ("dflash", "no layer norm", without("layers.1.input_layernorm.weight"), {"TEN001"}),
    ("dflash", "extra tensor", with_zeros("layers.0.self_attn.gate.weight", 4), {"TEN002"}),
    ("dflash", "extra at the root", with_zeros("verifier_norm.weight", 128), {"TEN002"}),
    ("dflash", "layers off", both(put("num_hidden_layers", 3), put("layer_types", ["full_attention"] * 3)), {"LAY001"}),
    ("dflash", "head size off", put("head_dim", 64), {"LAY002"}),
    ("dflash", "kv heads off", put("num_key_value_heads", 4), {"LAY002"}),
    ("dflash", "mlp off", put("intermediate_size", 512), {"LAY003"}),
    ("dflash", "hidden size off", put("hidden_size", 256), {"LAY003"}),
    ("dflash", "a shape off", with_zeros("layers.0.mlp.up_proj.weight", 255, 128), {"TEN003"}),
    ("dflash", "bias without the flag", with_zeros("layers.0.self_attn.q_proj.bias", 128), {"BIA001", "TEN001"}),
    ("dflash", "flag without biases", put("attention_bias", True), {"BIA001"}),
    ("dflash", "window lost by the flag", both(QWEN3_SWA, put("use_sliding_window", False)), {"ATT002"}),
    ("dflash", "layer_types too short", put("layer_types", ["full_attention"]), {"ATT002"}),
    ("dflash", "trained depth differs", put("num_target_layers", 36), {"VER002"}),
    ("dflash", "epsilon missing", put("rms_norm_eps", ...), {"CFG003"}),
    ("dflash", "vocabulary differs", put("vocab_size", 500), {"VOC001", "MSK002"}),
    ("dflash", "gemma's scale", put("dflash_config.input_embedding_scale", 73.5), {"EMB001"}),
    ("dspark", "gated by name", put("markov_head_type", "gated"), {"HED001"}),
    ("dspark", "gated by tensors", GATE, {"HED001"}),
    ("dspark", "rank off", put("markov_rank", 16), {"HED002"}),
    ("dspark", "type missing", put("markov_head_type", ...), {"HED002"}),
    ("dspark", "no markov_w2", without("markov_head.markov_w2.weight"), {"TEN001"}),
    ("dspark", "no confidence bias", without("confidence_head.proj.bias"), {"TEN001"}),
    ("dspark", "aux out of range", put("target_layer_ids", [0, 2, 6]), {"AUX001"}),
    ("dspark", "mask missing", put("mask_token_id", ...), {"MSK001"}),
    ("dspark", "partial rotary", put("rope_parameters.partial_rotary_factor", 0.25), {"ROP002"}),
    ("peagle", "no mask_hidden", without("mask_hidden"), {"MSK003"}),
    ("peagle", "mask missing", put("ptd_token_id", ...), {"MSK001"}),
    ("peagle", "mask outside", put("ptd_token_id", 512), {"MSK002"}),
    ("peagle", "aux out of range", put("eagle_config.eagle_aux_hidden_state_layer_ids", [1, 3, 7]), {"AUX001"}),
    ("peagle", "four aux layers", put("eagle_config.eagle_aux_hidden_state_layer_ids", [1, 2, 3, 5]), {"AUX004"}),
    ("peagle", "partial rotary", put("rope_parameters.partial_rotary_factor", 0.25), {"ROP002"}),
    ("peagle", "no hidden norm", without("midlayer.hidden_norm.weight"), {"TEN001"}),
    ("peagle", "no embedding", without("embed_tokens.weight"), {"TEN001"}),
    ("peagle", "layer twice", with_zeros("layers.0.input_layernorm.weight", 128), {"TEN004"}),
    ("peagle", "layers off", put("num_hidden_layers", 4), {"LAY001"}),
    ("peagle", "head size off", put("head_dim", 64), {"LAY002"}),
    ("peagle", "map of a full vocabulary", with_int64("d2t", [0] * 512), {"VOC003"}),
    ("peagle", "reduced without a map", both(put("draft_vocab_size", 100), with_zeros("lm_head.weight", 100, 128)), {"VOC002"}),
    ("peagle", "unknown architecture", put("architectures", ["SomethingForCausalLM"]), {"CFG004"}),
    ("peagle", "norm without the flag", with_zeros("input_norm.weight", 384), {"NRM001"}),
]  # fmt: skip

CONVERTED_FAULTS = [
    ("dflash", "top-level model_type", put("model_type", "qwen3"), {"CFG002"}),
    ("dflash", "full layers made causal", CAUSAL, {"ATT001"}),
    ("dflash", "is_causal on full layers", put(f"{LAYER}.is_causal", True), {"ATT001"}),
    ("dflash", "K beyond the block", put("speculators_config.proposal_methods.0.speculative_tokens", 8), {"SLT002"}),
    ("dflash", "K zero", put("speculators_config.proposal_methods.0.speculative_tokens", 0), {"SLT002"}),
    ("dflash", "K missing", put("speculators_config.proposal_methods.0.speculative_tokens", ...), {"CFG003"}),
    ("dflash", "anchor flag", both(put("sample_from_anchor", True)), {"SLT001"}),
    ("dflash", "mask missing", put("mask_token_id", ...), {"MSK001"}),
    ("dflash", "mask outside", put("mask_token_id", 512), {"MSK002"}),
    ("dflash", "partial rotary", put(f"{LAYER}.rope_parameters.partial_rotary_factor", 0.25), {"ROP002"}),
    ("dflash", "no layer config", put(LAYER, ...), {"CFG003", "CFG005"}),
    ("dspark", "anchor flag missing", put("sample_from_anchor", ...), {"SLT001"}),
    ("dspark", "anchor flag contradicts K", put("sample_from_anchor", False), {"SLT003"}),
    ("dspark", "K beyond the block", put("speculators_config.proposal_methods.0.speculative_tokens", 8), {"SLT002"}),
    ("dspark", "gated", put("markov_head_type", "gated"), {"HED001"}),
    ("dspark", "confidence flags absent", both(put("enable_confidence_head", ...), put("confidence_head_with_markov", ...)), {"HED003"}),
    ("dspark", "full layers made causal", put(f"{LAYER}.is_causal", True), {"ATT001"}),
    ("dspark", "theta missing", put(f"{LAYER}.rope_parameters", {"rope_type": "default"}), {"CFG005"}),
    ("dspark", "top-level model_type", put("model_type", "qwen3"), {"CFG002"}),
    ("peagle", "no mask_hidden", without("mask_hidden"), {"MSK003"}),
    ("peagle", "top-level model_type", put("model_type", "llama"), {"CFG002"}),
    ("peagle", "a second mask token", put(f"{LAYER}.mask_token_id", 3), {"MSK004"}),
    ("peagle", "qwen3 without norms", put(f"{LAYER}.model_type", "qwen3"), {"NRM001"}),
    ("peagle", "no layer norm", without("layers.1.post_attention_layernorm.weight"), {"TEN001"}),
    ("peagle", "extra tensor", with_zeros("verifier_lm_head.weight", 512, 128), {"TEN002"}),
]  # fmt: skip

NEAR_MISSES = [
    ("native", "dflash", "the last layer's output", put("dflash_config.target_layer_ids", [0, 2, 5])),
    ("native", "dflash", "the embedding", put("dflash_config.target_layer_ids", [-1, 2, 4])),
    ("native", "dflash", "the last row", put("dflash_config.mask_token_id", 511)),
    ("native", "dflash", "the first row", put("dflash_config.mask_token_id", 0)),
    ("native", "dflash", "rotary factor 1", put("rope_parameters.partial_rotary_factor", 1.0)),
    ("native", "dflash", "the same theta twice", put("rope_theta", 10000.0)),
    ("native", "dflash", "sliding layers", QWEN3_SWA),
    ("native", "dflash", "trained causal", put("is_causal", True)),
    ("native", "dflash", "both block sizes", put("dflash_config.block_size", 8)),
    ("native", "dflash", "rotary buffers", with_zeros("layers.0.self_attn.rotary_emb.inv_freq", 16)),
    ("native", "dspark", "no confidence head", both(
        put("enable_confidence_head", False), without("confidence_head.proj.bias", "confidence_head.proj.weight"))),
    ("native", "dspark", "borrowed embedding and head", without("embed_tokens.weight", "lm_head.weight")),
    ("native", "peagle", "mask token in quotes", put("ptd_token_id", "511")),
    ("native", "peagle", "both mask keys", put("pard_token", 511)),
    ("converted", "dflash", "fewer tokens", put("speculators_config.proposal_methods.0.speculative_tokens", 6)),
    ("converted", "dflash", "flag absent", put("sliding_window_non_causal", ...)),
    ("converted", "dflash", "is_causal absent", put(f"{LAYER}.is_causal", ...)),
    ("converted", "dflash", "model_type speculators", put("model_type", "speculators")),
    ("converted", "dflash", "anchor flag absent", put("sample_from_anchor", ...)),
    ("converted", "dspark", "bonus anchor of six", both(
        put("sample_from_anchor", False), put("speculators_config.proposal_methods.0.speculative_tokens", 6))),
    ("converted", "dspark", "flag absent, six tokens", both(
        put("sample_from_anchor", ...), put("speculators_config.proposal_methods.0.speculative_tokens", 6))),
    ("converted", "peagle", "norm_before_fc absent", put("norm_before_fc", ...)),
    ("converted", "peagle", "unknown key", put("some_future_key", 1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "name", "change", "expected"), NATIVE_FAULTS, ids=[f"{m}-{n}" for m, n, *_ in NATIVE_FAULTS]
)
def test_fault_in_a_native_folder(method: str, name: str, change: Change, expected: set[str], tmp_path: Path) -> None:
    assert codes(folder(PAIRS / NATIVE[method], tmp_path / "drafter", change)) == expected


@pytest.mark.parametrize(
    ("method", "name", "change", "expected"), CONVERTED_FAULTS, ids=[f"{m}-{n}" for m, n, *_ in CONVERTED_FAULTS]
)
def test_fault_in_a_speculators_folder(
    method: str, name: str, change: Change, expected: set[str], tmp_path: Path, converted: Callable[[str], Path]
) -> None:
    assert codes(folder(converted(method), tmp_path / "drafter", change)) == expected


@pytest.mark.parametrize(
    ("layout", "method", "name", "change"), NEAR_MISSES, ids=[f"{layout}-{m}-{n}" for layout, m, n, _ in NEAR_MISSES]
)
def test_near_miss_is_clean(
    layout: str, method: str, name: str, change: Change, tmp_path: Path, converted: Callable[[str], Path]
) -> None:
    base = PAIRS / NATIVE[method] if layout == "native" else converted(method)
    assert codes(folder(base, tmp_path / "drafter", change)) == set()


@pytest.mark.parametrize("method", NATIVE)
def test_good_pairs_are_clean(method: str, converted: Callable[[str], Path]) -> None:
    assert codes(PAIRS / NATIVE[method]) == set()
    assert codes(converted(method)) == set()


def all_of(expected: set[str]) -> dict[str, set[str]]:
    return dict.fromkeys(NATIVE, expected)


VERIFIER_FAULTS = [
    ("shallower", put("num_hidden_layers", 4), {"dflash": {"AUX001", "VER002"}, "dspark": {"AUX001", "VER002"}, "peagle": {"AUX001"}}),
    ("wider", put("hidden_size", 256), all_of({"VER003"})),
    ("another vocabulary", put("vocab_size", 640), all_of({"VOC001"})),
    ("cannot verify", put("architectures", ["MixtralForCausalLM"]), all_of({"VER001"})),
    ("unknown", put("architectures", ["NoSuchForCausalLM"]), all_of({"VER001"})),
    ("another capable class", put("architectures", ["LlamaForCausalLM"]), all_of(set())),
    ("no embedding", without("model.embed_tokens.weight"), {"dflash": {"VER004"}, "dspark": set(), "peagle": set()}),
    ("tied", both(put("tie_word_embeddings", True), without("lm_head.weight")), all_of(set())),
    ("no head", without("lm_head.weight"), {"dflash": {"VER004"}, "dspark": set(), "peagle": set()}),
]  # fmt: skip


@pytest.mark.parametrize("method", NATIVE)
@pytest.mark.parametrize(("name", "change", "expected"), VERIFIER_FAULTS, ids=[name for name, *_ in VERIFIER_FAULTS])
def test_fault_in_the_verifier(
    method: str, name: str, change: Change, expected: dict[str, set[str]], tmp_path: Path
) -> None:
    verifier = folder(VERIFIER, tmp_path / "verifier", change)
    assert codes(PAIRS / NATIVE[method], verifier) == expected[method]


def test_name_that_is_no_hub_id_is_a_note(tmp_path: Path, converted: Callable[[str], Path]) -> None:
    change = put("speculators_config.verifier.name_or_path", "/model/from_s3")
    report = api.validate(str(folder(converted("dflash"), tmp_path / "d", change)), verifier=str(VERIFIER))
    assert [(finding.code, finding.severity) for finding in report.findings] == [("VER005", "note")]
    report = api.validate(str(folder(converted("dflash"), tmp_path / "e", nothing)), verifier=str(VERIFIER))
    assert report.findings == ()


def test_what_cannot_be_checked_is_said() -> None:
    report = api.validate(str(PAIRS / "peagle-native"))
    assert {unknown.code for unknown in report.unknowns} == {"AUX001", "SLT002", "VER001", "VER003", "VOC001", "CFG005"}
