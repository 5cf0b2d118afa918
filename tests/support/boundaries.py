# ruff: noqa: E501 - tables: one fault, one line
"""Per rule a fault, and a near miss that differs from it in one value, at the boundary where there is one.

`tests/unit/rules/test_boundaries.py` runs both, and fails for a rule that is in no table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from faults import LAYER
from mutations import Change, Config, Tensors, both, nothing, put, with_int64, with_zeros, without


@dataclass(frozen=True)
class Boundary:
    """`layout` native or converted; `fires` and `misses` change the drafter, or the verifier where `of` says so."""

    code: str
    layout: str
    method: str
    fires: Change
    misses: Change
    of: str = "drafter"
    engine: tuple[str, str] = ("0.33.0", "0.33.0")
    oracle: bool = True
    """Whether the engine is asked too; a class whose inspection takes it a minute is not worth it."""


def dtype(name: str, kind: str) -> Change:
    def change(config: Config, tensors: Tensors) -> None:
        _, shape, data = tensors[name]
        tensors[name] = (kind, shape, data)

    return change


def rows(name: str, count: int) -> Change:
    """Make a tensor so many rows long."""

    def change(config: Config, tensors: Tensors) -> None:
        kind, shape, _ = tensors[name]
        with_zeros(name, count, *shape[1:])(config, tensors)
        tensors[name] = (kind, *tensors[name][1:])

    return change


def quantised(method: str, module: str = "mlp.down_proj") -> Change:
    """Quantise one module of the first layer as compressed-tensors and FP8 files do: a weight of one byte, a scale."""

    def change(config: Config, tensors: Tensors) -> None:
        config["quantization_config"] = {"quant_method": method, "activation_scheme": "dynamic"}
        name = next(name for name in tensors if name.endswith(f"layers.0.{module}.weight"))
        _, shape, _ = tensors[name]
        tensors[name] = ("F8_E4M3", shape, bytes(shape[0] * shape[1]))
        tensors[f"{name}_scale"] = ("F32", (1,), bytes(4))

    return change


K = "speculators_config.proposal_methods.0.speculative_tokens"
IDS = "dflash_config.target_layer_ids"
SWA = ["sliding_attention", "sliding_attention"]


def N(code: str, method: str, fires: Change, misses: Change, **more: Any) -> Boundary:  # noqa: N802 - a table's word
    return Boundary(code, "native", method, fires, misses, **more)


def C(code: str, method: str, fires: Change, misses: Change, **more: Any) -> Boundary:  # noqa: N802 - a table's word
    return Boundary(code, "converted", method, fires, misses, **more)


AT_TOP = both(put(IDS, ...), put("target_layer_ids", [0, 2, 4]))
REDUCED = both(put("draft_vocab_size", 100), rows("lm_head.weight", 100))

NO_HEADS = both(
    put("markov_rank", 0),
    put("markov_head_type", ...),
    put("enable_confidence_head", False),
    without("markov_head.markov_w1.weight", "markov_head.markov_w2.weight"),
    without("confidence_head.proj.weight", "confidence_head.proj.bias"),
)

HALF_HEADS = both(put("head_dim", 64), put("num_attention_heads", 2), put("num_key_value_heads", 1))
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
KINDS = both(
    put("layer_types", ["sliding_attention", "full_attention"] * 3),
    put("sliding_window", 16),
    put("use_sliding_window", True),
)

BOUNDARIES = [
    N("AUX001", "dflash", put(IDS, [0, 2, 6]), put(IDS, [0, 2, 5])),
    N("AUX002", "dflash", put(IDS, ...), nothing),
    N("AUX003", "dflash", put(IDS, [0, 2, 2]), put(IDS, [0, 2, 3])),
    N("AUX004", "dflash", put(IDS, [0, 2]), put(IDS, [0, 2, 3])),
    N("AUX005", "dflash", put(IDS, [0, 4, 2]), put(IDS, [0, 2, 4])),
    N("AUX005", "dflash", AT_TOP, both(AT_TOP, put("dflash_config.target_layer_ids", [0, 2, 4])), engine=("0.23.0", "0.23.0")),
    N("AUX005", "dflash", AT_TOP, AT_TOP, engine=("0.23.0", "0.24.0")),
    N("AUX006", "dflash", put(IDS, [0, 2, 5]), put(IDS, [0, 2, 4])),
    C("ATT001", "dflash", put(f"{LAYER}.is_causal", True), put(f"{LAYER}.is_causal", False)),
    N("ATT002", "dflash", put("layer_types", ["full_attention"]), put("layer_types", ["full_attention"] * 2)),
    N("ATT003", "peagle", both(put("layer_types", ["sliding_attention", "full_attention"]), put("sliding_window", 16)), both(put("layer_types", SWA), put("sliding_window", 16))),
    N("BIA001", "dflash", put("attention_bias", True), put("attention_bias", False)),
    C("CFG002", "dflash", put("model_type", "qwen3"), put("model_type", "speculators")),
    C("CFG003", "dflash", put(f"{LAYER}.rms_norm_eps", ...), put(f"{LAYER}.rms_norm_eps", 1e-6)),
    N("CFG003", "peagle", put("hidden_act", "gelu"), put("hidden_act", "silu")),
    N("CFG003", "dspark", put("dflash_config", None), put("dflash_config", {})),
    N("CFG004", "peagle", put("architectures", ["SomethingForCausalLM"]), put("architectures", ["LlamaForCausalLM"])),
    N("CFG004", "dflash", put("architectures", ["QwenDFlashDraftModel"]), put("architectures", ["DFlashDraftModel"])),
    N("CFG004", "dflash", put("model_type", "qwen3_5_text"), put("model_type", "mistral"), oracle=False),
    N("CFG004", "dspark", put("architectures", ["DSparkDraftModel"]), put("architectures", ["DSparkDraftModel"]), engine=("0.28.0", "0.29.0")),
    N("CFG004", "peagle", put("model_type", "7"), put("model_type", "mistral"), oracle=False),
    N("CFG004", "dflash", put("model_type", "QWEN3"), put("model_type", "qwen3")),
    N("CFG004", "dflash", put("model_type", "speculators"), put("model_type", "qwen3")),
    N("ATT001", "dflash", both(put("model_type", "gpt_oss"), put("layer_types", ...), put("sliding_window", ...)), put("model_type", "gpt_oss")),
    N("BIA001", "dflash", both(put("model_type", "gpt_oss"), put("attention_bias", ...)), put("model_type", "gpt_oss")),
    C("CFG005", "dspark", put(f"{LAYER}.rope_parameters", {"rope_type": "default"}), put(f"{LAYER}.rope_parameters", {"rope_type": "default", "rope_theta": 10000.0})),
    C("CFG006", "dflash", put(K, ...), put(K, 7)),
    N("DTY001", "dflash", dtype("norm.weight", "F16"), dtype("norm.weight", "BF16")),
    N("DTY003", "peagle", dtype("mask_hidden", "I16"), dtype("mask_hidden", "F16")),
    N("DTY003", "dspark", dtype("confidence_head.proj.bias", "I16"), dtype("confidence_head.proj.bias", "BF16")),
    N("EMB001", "dflash", put("dflash_config.input_embedding_scale", 73.5), put("dflash_config.input_embedding_scale", 1.0)),
    C("ENG001", "dspark", nothing, nothing, engine=("0.24.0", "0.27.1")),
    C("ENG001", "peagle", nothing, nothing, engine=("0.20.2", "0.23.0")),
    N("ENG002", "dflash", nothing, nothing, engine=("vllm==0.33.1", "vllm==0.33.0")),
    N("HED001", "dspark", put("markov_head_type", "gated"), put("markov_head_type", "vanilla")),
    N("HED002", "dspark", put("markov_rank", 31), put("markov_rank", 32)),
    C("HED003", "dspark", put("enable_confidence_head", ...), put("enable_confidence_head", True)),
    C("HED005", "dspark", put("confidence_head_with_markov", ...), put("confidence_head_with_markov", True)),
    N("HED005", "dspark", put("confidence_head_with_markov", False), put("confidence_head_with_markov", True)),
    # What vLLM makes of it depends on the CPU.
    N("HED006", "dspark", NO_HEADS, nothing, oracle=False),
    N("HED002", "dspark", put("markov_rank", 0), nothing),
    N("LAY001", "peagle", put("num_hidden_layers", 3), put("num_hidden_layers", 2)),
    N("LAY002", "dflash", put("num_key_value_heads", 1), put("num_key_value_heads", 2)),
    N("LAY003", "dflash", put("intermediate_size", 257), put("intermediate_size", 256)),
    C("LEN001", "peagle", put(f"{LAYER}.max_position_embeddings", 7.0), put(f"{LAYER}.max_position_embeddings", 2048.0), engine=("0.32.0", "0.32.0")),
    N("LEN001", "dflash", put("max_position_embeddings", 2049), put("max_position_embeddings", 2048), of="verifier", engine=("0.32.0", "0.32.0")),
    N("MSK001", "peagle", put("ptd_token_id", ...), put("ptd_token_id", 511)),
    N("MSK002", "dflash", put("dflash_config.mask_token_id", 512), put("dflash_config.mask_token_id", 511)),
    N("MSK003", "peagle", without("mask_hidden"), nothing),
    C("MSK004", "peagle", put(f"{LAYER}.mask_token_id", 510), put(f"{LAYER}.mask_token_id", 511)),
    N("NRM001", "peagle", with_zeros("input_norm.weight", 384), nothing),
    N("QNT001", "dflash", put("quantization", {"bits": 4}), put("quantization", None)),
    N("QNT001", "dflash", quantised("squeezellm"), quantised("compressed-tensors")),
    N("QNT002", "dflash", both(quantised("fp8"), put("quantization_config", ...)), quantised("fp8")),
    N("QNT002", "dspark", put("quantization_config", {"quant_method": "fp8"}), put("quantization_config", None)),
    C("QNT002", "dflash", both(quantised("fp8"), put("quantization_config.quant_method", ...)), quantised("fp8")),
    N("QNT003", "dflash", quantised("fp8", "self_attn.v_proj"), quantised("fp8", "mlp.up_proj"), engine=("0.30.0", "0.30.0")),
    N("QNT003", "dflash", quantised("fp8", "self_attn.v_proj"), quantised("fp8", "self_attn.v_proj"), engine=("0.30.0", "0.31.0")),
    N("QNT004", "dflash", quantised("fp8"), nothing),
    N("ROP001", "dflash", put("rope_theta", 10001.0), put("rope_theta", 10000.0)),
    N("ROP002", "dflash", put("rope_parameters.partial_rotary_factor", 0.5), put("rope_parameters.partial_rotary_factor", 1.0)),
    # vLLM 0.28 alone gives DFlash the verifier's rope layout.
    N("ROP002", "dflash", put("architectures", ["GlmMoeDsaForCausalLM"]), put("architectures", ["Qwen3ForCausalLM"]), of="verifier", engine=("0.28.0", "0.28.0"), oracle=False),
    N("ROP002", "dflash", put("architectures", ["DeepseekV3ForCausalLM"]), put("architectures", ["DeepseekV3ForCausalLM"]), of="verifier", engine=("0.28.0", "0.29.0"), oracle=False),
    N("ROP003", "dflash", put("rope_parameters.rope_theta", 10001.0), put("rope_parameters.rope_theta", 10000.0), of="verifier"),
    C("SLT001", "dspark", put("sample_from_anchor", ...), put("sample_from_anchor", True)),
    N("SLT001", "dspark", put("dflash_config", {"sample_from_anchor": True}), put("dflash_config", {"sample_from_anchor": False})),
    N("SLT001", "dspark", put("dflash_config", {"sample_from_anchor": True}), put("dflash_config", {"sample_from_anchor": True}), engine=("0.27.1", "0.26.0")),
    C("SLT002", "dflash", put(K, 8), put(K, 7)),
    C("SLT002", "dspark", put(K, 8), put(K, 7)),
    C("SLT003", "dspark", put("sample_from_anchor", False), both(put("sample_from_anchor", False), put(K, 6))),
    C("SLT004", "dspark", put(K, 6), put(K, 7)),
    N("TEN001", "dflash", without("norm.weight"), nothing),
    N("TEN002", "dflash", with_zeros("layers.0.self_attn.gate.weight", 4), nothing),
    N("TEN003", "dflash", rows("layers.0.mlp.up_proj.weight", 257), rows("layers.0.mlp.up_proj.weight", 256)),
    N("TEN004", "peagle", with_zeros("layers.0.input_layernorm.weight", 128), with_zeros("rotary_emb.inv_freq", 16)),
    N("VER001", "dflash", put("architectures", ["MixtralForCausalLM"]), put("architectures", ["LlamaForCausalLM"]), of="verifier"),
    N("VER002", "dflash", put("num_hidden_layers", 7), put("num_hidden_layers", 6), of="verifier"),
    N("VER003", "dflash", put("hidden_size", 129), put("hidden_size", 128), of="verifier"),
    N("VER004", "dflash", without("lm_head.weight"), both(without("lm_head.weight"), put("tie_word_embeddings", True)), of="verifier"),
    C("VER005", "dflash", put("speculators_config.verifier.name_or_path", "/m/verifier"), put("speculators_config.verifier.name_or_path", "m/verifier")),
    N("VER007", "dflash", put("quantization_config", {"quant_method": "fp8"}), put("quantization_config", None), of="verifier"),
    N("LAY005", "peagle", HALF_HEADS, both(HALF_HEADS, put("head_dim", 32), put("num_attention_heads", 4), put("num_key_value_heads", 2))),
    N("LAY001", "peagle", put("num_hidden_layers", 1), put("num_hidden_layers", 2)),
    N("NRM002", "dflash", put("rms_norm_eps", 1e-5), put("rms_norm_eps", 1e-6), of="verifier"),
    N("CFG003", "peagle", put("rms_norm_eps", -1e-6), put("rms_norm_eps", 0.1)),
    C("CFG003", "dspark", put("speculators_config", ...), put("speculators_config", {})),
    C("CFG003", "peagle", put("speculators_config", None), both(put("speculators_config", None), put("model_type", "speculators"))),
    C("CFG002", "dflash", put("model_type", "qwen3"), put("model_type", None)),
    C("CFG003", "dflash", put(f"{LAYER}.head_dim", {}), put(f"{LAYER}.head_dim", ...)),
    C("CFG003", "peagle", put(f"{LAYER}.max_position_embeddings", {}), put(f"{LAYER}.max_position_embeddings", ...)),
    C("CFG003", "dflash", put(f"{LAYER}.max_position_embeddings", "2048"), put(f"{LAYER}.max_position_embeddings", 2048.0)),
    N("ROP001", "dflash", put("rope_parameters.rope_type", "7"), put("rope_parameters.rope_type", ...)),
    C("ROP001", "dflash", put(f"{LAYER}.rope_parameters.rope_type", "yarn"), put(f"{LAYER}.rope_parameters", {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 1024})),
    C("ROP001", "peagle", put(f"{LAYER}.rope_parameters.rope_type", "deepseek_yarn"), put(f"{LAYER}.rope_parameters.rope_type", "default")),
    C("ATT002", "peagle", put(f"{LAYER}.layer_types", ["full_attention"] * 3), put(f"{LAYER}.layer_types", ["full_attention"] * 2)),
    C("AUX002", "peagle", put(f"{LAYER}.eagle_config", {"use_aux_hidden_state": False}), put(f"{LAYER}.eagle_config", {"use_aux_hidden_state": True})),
    C("AUX002", "dflash", put(f"{LAYER}.use_aux_hidden_state", False), put(f"{LAYER}.use_aux_hidden_state", True)),
    N("ROP001", "dflash", put("rope_parameters.rope_type", None), put("rope_parameters.rope_type", "default")),
    N("ROP001", "peagle", put("rope_parameters.mrope_section", [4, 6, 6]), put("rope_parameters.mrope_section", None)),
    N("ROP001", "dflash", put("rope_parameters.mrope_section", [4, 6, 6]), put("rope_parameters.mrope_section", [4, 6, 6]), engine=("0.20.2", "0.33.0"), oracle=False),
    N("ROP001", "peagle", put("rope_parameters.rope_theta", None), put("rope_parameters", None)),
    C("ROP001", "dflash", put(f"{LAYER}.rope_parameters.rope_type", "mrope"), put(f"{LAYER}.rope_parameters", {"rope_type": "mrope", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}), oracle=False),
    N("ROP003", "dflash", put("rope_parameters", LINEAR), put("rope_parameters", {"rope_type": "default", "rope_theta": 10000.0})),
    N("ROP003", "dflash", put("rope_parameters.rope_theta", 5000.0), put("rope_parameters.rope_theta", 10000.0)),
    N("VER001", "dflash", put("architectures", None), put("architectures", ["Qwen3ForCausalLM"]), of="verifier"),
    N("VER008", "dflash", KINDS, both(KINDS, put("max_window_layers", 6)), of="verifier"),
    N("VER009", "dflash", without("model.norm.weight"), nothing, of="verifier"),
    N("VER009", "dflash", with_zeros("extra.weight", 2), with_zeros("model.layers.0.self_attn.q_proj.bias", 128), of="verifier"),
    N("VER009", "dflash", rows("lm_head.weight", 511), rows("lm_head.weight", 512), of="verifier"),
    N("VER009", "peagle", without("lm_head.weight"), both(without("lm_head.weight"), put("tie_word_embeddings", True)), of="verifier"),
    N("VER009", "dflash", dtype("model.norm.weight", "I16"), dtype("model.norm.weight", "F16"), of="verifier"),
    N("VER009", "dflash", put("architectures", ["LlamaForCausalLM"]), put("architectures", ["Qwen3ForCausalLM"]), of="verifier"),
    N("VER008", "dflash", put("use_cache", None), put("use_cache", False), of="verifier"),
    N("VER008", "dflash", put("model_type", ...), put("pad_token_id", None), of="verifier"),
    N("VER008", "dflash", put("rms_norm_eps", 1), put("rms_norm_eps", 1.0), of="verifier"),
    N("VER008", "dflash", put("layer_types", ["full_attention"] * 5), put("layer_types", ["full_attention"] * 6), of="verifier", engine=("0.24.0", "0.24.0")),
    N("VER008", "dflash", put("use_cache", None), put("use_cache", None), of="verifier", engine=("0.24.0", "0.23.0")),
    N("CFG003", "dflash", put("attention_bias", 0), put("attention_bias", False)),
    N("CFG003", "dflash", put("head_dim", None), put("num_key_value_heads", 2)),
    N("CFG003", "peagle", put("eos_token_id", "2"), put("eos_token_id", [2])),
    N("CFG003", "peagle", put("rms_norm_eps", 1), put("head_dim", None)),
    N("CFG003", "dspark", put("dtype", "BFLOAT16"), put("dtype", "float32")),
    N("CFG003", "dflash", put("use_cache", 1), put("use_cache", 1), engine=("0.24.0", "0.23.0")),
    N("ATT002", "dflash", put("layer_types", ["full_attention"] * 3), put("layer_types", None)),
    N("ATT002", "peagle", put("layer_types", ["nonsense"] * 2), put("layer_types", ["full_attention"] * 2)),
    N("ROP001", "dspark", put("rope_parameters", {"rope_type": "linear", "rope_theta": 10000.0}), put("rope_parameters", {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0})),
    N("VOC001", "dflash", put("vocab_size", 513), put("vocab_size", 512), of="verifier"),
    N("VOC002", "peagle", REDUCED, both(REDUCED, with_int64("d2t", [0] * 100))),
    N("VOC004", "peagle", both(REDUCED, with_int64("d2t", [0] * 100)), both(REDUCED, with_int64("d2t", [0] * 99 + [1]))),
    N("VOC004", "peagle", both(REDUCED, with_int64("d2t", [413] * 100)), both(REDUCED, with_int64("d2t", [412] * 100))),
    N("VOC003", "peagle", with_int64("d2t", [0] * 512), both(REDUCED, with_int64("d2t", [0] * 100))),
]  # fmt: skip

# Rules whose faults need more than a config and tensors: the test that shows both sides.
ELSEWHERE = {
    "CAC001": "tests/unit/rules/test_launch_rules.py::test_drafter_layers_in_several_caches",
    "SLT005": "tests/unit/rules/test_launch_rules.py::test_more_tokens_than_the_file_was_trained_for",
    "CFG007": "tests/unit/record/test_settled.py::test_what_does_not_belong_together_settles_nothing",
    "CFG001": "tests/cli/test_validate.py::test_an_unknown_layout_is_a_finding",
    "MSK005": "tests/unit/rules/test_boundaries.py::test_a_mask_embedding_that_is_not_read",
    "HED004": "tests/unit/rules/test_boundaries.py::test_differences_no_config_makes",
    "LAY004": "tests/unit/rules/test_boundaries.py::test_differences_no_config_makes",
    "SCH001": "tests/unit/formats/test_schema_check.py::test_odd_file_is_no_error",
    "SCH002": "tests/unit/formats/test_schema_check.py::test_bad_file_is_an_error_of_its_own_rule",
    "SCH003": "tests/unit/formats/test_schema_check.py::test_odd_file_is_no_error",
    "TEN005": "tests/unit/rules/test_weight_files.py::test_what_vllm_loads_besides",
    "VER006": "tests/unit/rules/test_planted_faults.py::test_tokenizers_are_compared_by_content",
    "WGT001": "tests/unit/weights/test_rules.py::test_fires",
    "WGT002": "tests/unit/weights/test_rules.py::test_fires",
    "WGT004": "tests/unit/weights/test_rules.py::test_fires",
    "WGT005": "tests/unit/weights/test_rules.py::test_fires",
}
