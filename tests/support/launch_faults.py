# ruff: noqa: E501 - tables: one fault, one line
"""Launches of the example pairs: for each rule one that it speaks about, and a near miss that differs in one value."""

from __future__ import annotations

import json
from typing import Any

from mutations import both, nothing, put, with_zeros

ALL = ("peagle", "dflash", "dspark")
V2 = "VLLM_USE_V2_MODEL_RUNNER"
MIXED = both(
    put("layer_types", ["sliding_attention", "full_attention"]),
    put("sliding_window", 64),
    put("use_sliding_window", True),
)
HYBRID = both(
    put("model_type", "qwen3_next"),
    put("layer_types", ["linear_attention"] * 3 + ["full_attention"] * 3),
    put("linear_num_key_heads", 4),
    put("linear_num_value_heads", 4),
    put("linear_key_head_dim", 32),
    put("linear_value_head_dim", 32),
    put("linear_conv_kernel_dim", 4),
)
EXPERTS = both(put("num_experts", 8), put("moe_intermediate_size", 256))
EXPERT_BLOCKS = both(EXPERTS, put("quantization_config", {"quant_method": "fp8", "weight_block_size": [128, 128]}))
VISION = put("vision_config", {"hidden_size": 8})
NORMS = [f"layers.{layer}.self_attn.{name}_norm.weight" for layer in (0, 1) for name in "qk"]
# The same projections in half as many heads, twice as wide: FlashInfer has no kernel for 32.
WIDE_HEADS = both(
    put("head_dim", 64),
    put("num_attention_heads", 2),
    put("num_key_value_heads", 1),
    *(with_zeros(name, 64) for name in NORMS),
)
# Sliding layers beside full ones of the drafter's own geometry: P-EAGLE's two layers fall into several groups.
MANY_GROUPS = both(
    put("model_type", "gpt_oss"),
    put("sliding_window", 64),
    put("layer_types", ["sliding_attention", "full_attention"] * 3),
)


def sc(**keys: Any) -> tuple[str, str]:
    """Words for a speculative configuration."""
    return ("--speculative-config", json.dumps(keys))


def alone(**keys: Any) -> tuple[str, str]:
    """One that names the drafter, as without spectool."""
    return sc(model="/models/drafter", **keys)


def graphs(sizes: list[int], **more: int) -> tuple[str, str]:
    return ("--compilation-config", json.dumps({"cudagraph_capture_sizes": sizes, **more}))


AV, NO_AV = sc(enable_adaptive_verification=True), sc(enable_adaptive_verification=False)
NO_HEAD = put("enable_confidence_head", False)


def cc(mode: str) -> tuple[str, str]:
    return ("--compilation-config", json.dumps({"cudagraph_mode": mode}))


WATERMARK = ("--watermark-config", '{"key": 7, "algorithm": "dual_key_gumbel"}')
GREEDY, SAMPLED = sc(draft_sample_method="greedy"), sc(draft_sample_method="probabilistic")


def schedule(*ranges: list[int]) -> tuple[str, str]:
    return sc(num_speculative_tokens_per_batch_size=list(ranges))


BUDGET = ("--max-num-seqs", "4")
D7 = {"method": "dflash", "num_speculative_tokens": 7}

# (code, method, words that fire, near miss, verifier's change, drafter's change, GPUs, release)
Row = tuple[str, str, tuple[str, ...], tuple[str, ...], Any, Any, str | None, str]


def row(
    code: str,
    method: str,
    fires: tuple[str, ...],
    misses: tuple[str, ...],
    *,
    verifier: Any = nothing,
    drafter: Any = nothing,
    gpus: str | None = None,
    engine: str = "0.33.0",
) -> Row:
    return code, method, fires, misses, verifier, drafter, gpus, engine


LAUNCHES: list[Row] = [
    row("PAR001", "dflash", ("--tensor-parallel-size", "3"), ("--tensor-parallel-size", "4")),
    row("PAR001", "dspark", ("-tp=8",), ("-tp=2",)),
    row("PAR002", "dflash", ("-tp=4", *sc(draft_tensor_parallel_size=2)), ("-tp=4", *sc(draft_tensor_parallel_size=4))),
    row("PAR002", "peagle", ("-tp=4", *sc(draft_tensor_parallel_size=2)), ("-tp=4", *sc(draft_tensor_parallel_size=1))),
    row("PAR002", "dspark", ("-tp=2", *sc(draft_tensor_parallel_size="4")), ("-tp=2", *sc(draft_tensor_parallel_size="2"))),
    row("PAR003", "peagle", ("--pipeline-parallel-size", "2"), ("--pipeline-parallel-size", "1")),
    row("PAR003", "dflash", ("-pp=2",), ("-pp=1",), verifier=put("architectures", ["GraniteForCausalLM"])),
    row("PAR003", "dspark", ("-pp=2",), ("-pp=1",), engine="0.29.0"),
    row("PAR001", "peagle", ("--tensor-parallel-size", "5"), ("--tensor-parallel-size", "4")),
    row("PAR001", "dflash", ("--decode-context-parallel-size", "2"), ("--decode-context-parallel-size", "1")),
    row("PAR001", "dspark", ("-tp=2", "-dcp=2"), ("-tp=4", "-dcp=2")),
    row("PAR004", "dflash", ("-tp=4", "-dcp=2"), ("-tp=4", "-dcp=1"), engine="0.30.0"),
    row("PAR004", "dflash", (f"{V2}=0", "-tp=4", "-dcp=2"), ("-tp=4", "-dcp=2")),
    row("PAR004", "peagle", ("-tp=4", "--decode-context-parallel-size", "2"), ("-tp=4", "--decode-context-parallel-size", "1")),
    row("PAR005", "dflash", ("-tp=2", "-dp=2"), ("-tp=2", "-dp=1"), gpus="a100-80gb:2"),
    row("PAR005", "peagle", ("-tp=4",), ("-tp=2",), gpus="a100-80gb:2"),
    row("PAR005", "dspark", ("-pp=4",), ("-pp=2",), gpus="a100-80gb:2"),
    row("PAR006", "dflash", ("-tp=2", "-ep"), ("-tp=2", "--no-enable-expert-parallel")),
    row("PAR006", "dspark", ("-tp=2", "-ep"), ("-tp=2",), verifier=EXPERTS, engine="0.30.0"),
    row("PAR006", "peagle", ("-tp=2", "--enable-eplb"), ("-tp=2", "-ep", "--enable-eplb"), verifier=EXPERTS),
    row("PAR006", "dflash", ("-tp=1", "-ep", "--enable-eplb"), ("-dp=2", "-ep", "--enable-eplb"), verifier=EXPERTS),
    row("PAR006", "dflash", ("-tp=4",), ("-tp=4", "-ep"), verifier=EXPERT_BLOCKS, engine="0.28.0"),
    row("PAR006", "dflash", ("-tp=2", "-dp=2"), ("-tp=2",), verifier=EXPERT_BLOCKS, engine="0.28.0"),
    row("PAR001", "dflash", ("-tp=2", "-dp=3"), ("-tp=2", "-dp=3", "-ep"), verifier=EXPERTS),
    row("RUN001", "dspark", (f"{V2}=0",), (f"{V2}=1",)),
    row("RUN001", "dspark", ("--enable-dbo",), ("--no-enable-dbo",)),
    row("RUN001", "dflash", (f"{V2}=0",), (f"{V2}=1",), drafter=MIXED),
    row("RUN001", "dflash", (f"{V2}=0", *sc(enable_adaptive_verification=True)), (f"{V2}=0", *sc(enable_adaptive_verification=False))),
    row("RUN001", "peagle", sc(draft_lm_head_quantization="fp8"), sc(draft_lm_head_quantization=None)),
    row("RUN002", "peagle", (f"{V2}=1",), (f"{V2}=0",)),
    row("RUN002", "peagle", (f"{V2}=1", "--enforce-eager"), ("--enforce-eager",)),
    row("RUN003", "peagle", ("--prefill-context-parallel-size", "2"), ("--prefill-context-parallel-size", "1")),
    row("RUN003", "peagle", ("--logits-processors", "a:B"), ("--logprobs-mode", "raw_logits")),
    row("RUN003", "peagle", ("--async-scheduling", "-pp=2"), ("--no-async-scheduling", "-pp=2")),
    row("RUN003", "dflash", (f"{V2}=0", "-pcp=2"), ("-pcp=2",)),
    row("RUN004", "dflash", (f"{V2}=0",), (f"{V2}=1",), drafter=both(put("dflash_config.target_layer_ids", ...), put("target_layer_ids", [0, 2, 4]))),
    row("SPC001", "dflash", sc(num_speculative_token=7), sc(num_speculative_tokens=7)),
    row("SPC001", "dflash", sc(tensor_parallel_size=1), sc(draft_tensor_parallel_size=1)),
    row("SPC001", "dflash", sc(kv_cache_dtype="auto"), sc(attention_backend="auto"), engine="0.25.1"),
    row("SPC001", "peagle", sc(num_spec_tokens=7), sc(num_speculative_tokens=7)),
    row("SPC002", "peagle", sc(method="peagle"), sc(method="eagle3")),
    row("SPC002", "peagle", sc(parallel_drafting=False), sc(parallel_drafting=True)),
    row("SPC002", "peagle", alone(method="eagle3", num_speculative_tokens=5), alone(method="eagle3", parallel_drafting=True, num_speculative_tokens=5)),
    row("SPC002", "dflash", alone(num_speculative_tokens=7), alone(**D7)),
    row("SPC002", "dflash", sc(model="/m/Qwen3-eagle3-dflash", num_speculative_tokens=7), sc(model="/m/Qwen3-dflash", num_speculative_tokens=7)),
    row("SPC002", "dspark", sc(method="dflash"), sc(method="dspark")),
    row("SPC003", "dflash", alone(method="dflash"), alone(**D7)),
    row("SPC003", "dspark", sc(num_speculative_tokens=0), sc(num_speculative_tokens=1)),
    row("SPC003", "dspark", sc(num_speculative_tokens="7.5"), sc(num_speculative_tokens="7")),
    row("SPC003", "peagle", sc(num_speculative_tokens=-1), sc(num_speculative_tokens=1.0)),
    row("SPC004", "dflash", sc(max_model_len=2049), sc(max_model_len=2048)),
    row("SPC004", "dflash", ("--max-model-len", "1024", *sc(max_model_len=1025)), ("--max-model-len", "1024", *sc(max_model_len=1024))),
    row("SPC004", "peagle", sc(max_model_len="4096"), sc(max_model_len="512")),
    row("SPC005", "dflash", sc(rejection_sample_method="synthetic", synthetic_acceptance_length=8.5), sc(rejection_sample_method="synthetic", synthetic_acceptance_length=8.0)),
    row("SPC005", "dflash", sc(rejection_sample_method="synthetic", synthetic_acceptance_rates=[0.5] * 6), sc(rejection_sample_method="synthetic", synthetic_acceptance_rates=[0.5] * 7)),
    row("SPC005", "dspark", sc(num_speculative_tokens=2, rejection_sample_method="synthetic", synthetic_acceptance_rates=[0.5, 0.6]), sc(num_speculative_tokens=2, rejection_sample_method="synthetic", synthetic_acceptance_rates=[0.5, 0.5])),
    row("SPC005", "dspark", sc(synthetic_acceptance_length=2), sc(synthetic_acceptance_length=None)),
    row("SPC005", "dflash", sc(rejection_sample_method="fly", fly_window_size=7), sc(rejection_sample_method="fly", fly_window_size=6)),
    row("SPC006", "dspark", sc(dspark_draft_topk=513), sc(dspark_draft_topk=512)),
    row("SPC006", "dflash", sc(dspark_draft_topk=1), sc(dspark_draft_topk=None)),
    row("SPC006", "peagle", sc(use_heterogeneous_vocab=True), sc(use_heterogeneous_vocab=False)),
    row("SPC007", "dflash", (*sc(num_speculative_tokens=7), "--spec-tokens", "7"), (*sc(attention_backend="auto"), "--spec-tokens", "7")),
    row("SPC007", "dspark", (*sc(method="dspark"), "--spec-method", "dspark"), (*sc(num_speculative_tokens=7), "--seed", "1")),
    row("SPC007", "dflash", (*alone(**D7), "--spec-method=dflash"), alone(**D7)),
    row("ADV001", "dspark", ("--enforce-eager", *sc(enable_adaptive_verification=True)), ("--enforce-eager", *sc(enable_adaptive_verification=False))),
    row("ADV001", "dflash", sc(enable_adaptive_verification=True, use_local_argmax_reduction=True), sc(enable_adaptive_verification=True, use_local_argmax_reduction=False)),
    row("ADV001", "dspark", ("--enable-lora", *AV), ("--no-enable-lora", *AV)),
    row("ADV001", "dspark", AV, (*AV, "--attention-backend=TRITON_ATTN"), gpus="a100-80gb:1"),
    row("ADV001", "dspark", (*AV, "--attention-backend=FLASHINFER"), AV, gpus="h100-80gb:1"),
    row("ADV001", "dspark", ("-pp=2", *AV), ("-pp=1", *AV), engine="0.32.0"),
    row("ADV001", "dspark", (*cc("NONE"), *AV), (*cc("FULL_DECODE_ONLY"), *AV)),
    row("ADV001", "dspark", (*cc("PIECEWISE"), *AV), (*cc("FULL"), *AV), engine="0.30.0"),
    row("ADV001", "dspark", (*cc("NONE"), *AV), (*cc("PIECEWISE"), *AV), engine="0.29.0"),
    row("ADV001", "dspark", ("-O1", *AV), ("-O2", *AV)),
    row("ADV001", "dspark", ("-cc.cudagraph_mode=NONE", *AV), ("-cc.cudagraph_mode=FULL", *AV)),
    row("ADV001", "dflash", AV, NO_AV, engine="0.29.0"),
    row("ADV001", "dspark", AV, NO_AV, drafter=NO_HEAD, engine="0.29.0"),
    row("ADV001", "dspark", (*sc(enable_adaptive_verification=True, use_local_argmax_reduction=True),), AV, drafter=NO_HEAD),
    row("ADV001", "dspark", ("--enable-return-routed-experts", *AV), ("--no-enable-return-routed-experts", *AV), engine="0.31.0"),
    row("ADV001", "dspark", ("--return-sampling-mask", *AV), ("--no-return-sampling-mask", *AV), engine="0.32.0"),
    row("ADV001", "dspark", ("--enable-batch-sharded-sampling", *AV), ("--no-enable-batch-sharded-sampling", *AV), engine="0.32.0"),
    row("ADV001", "dspark", ("--enable-lora", *sc(enable_adaptive_verification=True)), ("--enable-lora", *sc(enable_adaptive_verification="false"))),
    row("ADV001", "dspark", ("-pp=2", *sc(enable_adaptive_verification=True)), ("-pp=2",)),
    row("ADV001", "dspark", ("-cc", '{"cudagraph_mode": "PIECEWISE"}', *sc(enable_adaptive_verification=True)), ("-cc", '{"cudagraph_mode": "FULL_DECODE_ONLY"}', *sc(enable_adaptive_verification=True))),
    row("ADV002", "dflash", sc(use_local_argmax_reduction=True, draft_sample_method="probabilistic"), sc(use_local_argmax_reduction=True, draft_sample_method="greedy")),
    row("ADV002", "dspark", sc(use_local_argmax_reduction=True, draft_sample_method="probabilistic"), sc(use_local_argmax_reduction=True)),
    row("ADV003", "peagle", sc(disable_padded_drafter_batch=True), sc(disable_padded_drafter_batch=False)),
    row("ADV003", "dflash", (f"{V2}=0", *sc(disable_padded_drafter_batch="true")), sc(disable_padded_drafter_batch="true")),
    row("ADV004", "dflash", schedule([1, 8, 7], [8, 99, 3]), schedule([1, 8, 7], [9, 99, 3])),
    row("ADV004", "dflash", schedule([2, 8, 7]), schedule([1, 8, 7], [20, 30, 3])),
    row("ADV004", "dspark", schedule([1, 8, -1]), schedule([9, 20, 0], [1, 8, 7])),
    row("ADV004", "dflash", schedule([1, 8]), schedule([1, 8, 7])),
    row("ADV004", "dflash", ("-dp=2", *sc(num_speculative_tokens_per_batch_size=[[1, 8, 7]])), ("-dp=1", *sc(num_speculative_tokens_per_batch_size=[[1, 8, 7]]))),
    row("ADV005", "dflash", sc(quantization="fp8"), sc(quantization=None)),
    row("BUD001", "dflash", (*BUDGET, "--max-num-batched-tokens", "8"), (*BUDGET, "--max-num-batched-tokens", "32")),
    row("BUD001", "dspark", (*BUDGET, "--max-num-batched-tokens", "3"), (*BUDGET, "--max-num-batched-tokens", "28")),
    row("BUD001", "dflash", (*BUDGET, "--max-num-batched-tokens", "32", "--max-model-len", "33", "--no-enable-chunked-prefill"), (*BUDGET, "--max-num-batched-tokens", "32", "--max-model-len", "32", "--no-enable-chunked-prefill")),
    row("BUD001", "dspark", ("--max-num-seqs", "3", "--max-num-batched-tokens", "23", "--enable-lora"), ("--max-num-seqs", "3", "--max-num-batched-tokens", "24", "--enable-lora")),
    row("BUD002", "dflash", (*BUDGET, "--max-num-batched-tokens", "31"), (*BUDGET, "--max-num-batched-tokens", "32")),
    row("BUD003", "dflash", (*BUDGET, "--max-num-batched-tokens", "8191"), (*BUDGET, "--max-num-batched-tokens", "8192")),
    row("BUD004", "dflash", ("--gpu-memory-utilization", "0.01"), ("--gpu-memory-utilization", "0.9"), gpus="l4:1"),
    row("BUD005", "peagle", graphs([1, 2, 4, 5]), graphs([1, 2, 4, 6])),
    row("BUD005", "dflash", (f"{V2}=0", *graphs([4, 7])), (f"{V2}=0", *graphs([4, 8]))),
    row("BUD005", "dflash", graphs([8, 16], max_cudagraph_capture_size=32), graphs([8, 32], max_cudagraph_capture_size=32)),
    row("LEN002", "dflash", ("--max-model-len", "2049"), ("--max-model-len", "2048")),
    row("LEN002", "dspark", ("--max-model-len", "4096"), ("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", "--max-model-len", "4096")),
    row("LEN002", "peagle", ("--max-model-len=3k",), ("--max-model-len=2k",)),
    row("LEN001", "dflash", ("--max-model-len", "2048"), ("--max-model-len", "1024"), drafter=put("max_position_embeddings", 1024), engine="0.32.0"),
    row("DTY002", "dflash", ("--dtype", "float16"), ("--dtype", "bfloat16")),
    row("DTY002", "dspark", ("--dtype=half",), ("--dtype=auto",)),
    row("FEA001", "dflash", ("--kv-sharing-fast-prefill",), ("--no-kv-sharing-fast-prefill",)),
    row("FEA002", "dspark", (*WATERMARK, *GREEDY), (*WATERMARK, *SAMPLED)),
    row("FEA002", "dspark", (*WATERMARK, *sc(draft_sample_method="probabilistic", rejection_sample_method="block")), (*WATERMARK, *sc(draft_sample_method="probabilistic", rejection_sample_method="standard"))),
    row("FEA002", "dspark", ("--watermark-config", '{"key": 7}', *SAMPLED), ("--watermark-config", '{"key": 7, "allow_target_only_watermarking": true}', *SAMPLED)),
    row("FEA002", "dspark", ("--watermark-config", '{"algorithm": "dual_key_gumbel"}', *SAMPLED), (*WATERMARK, *SAMPLED)),
    row("FEA002", "dflash", (*WATERMARK, *SAMPLED), SAMPLED, engine="0.32.0"),
    row("FEA002", "dflash", (*WATERMARK, *GREEDY), (*WATERMARK, *SAMPLED)),
    row("FEA002", "peagle", (*WATERMARK, *SAMPLED), SAMPLED),
    row("FEA003", "dflash", ("--enable-lora",), ("--no-enable-lora",)),
    row("FEA004", "dflash", ("--enable-prefix-caching",), ("--no-enable-prefix-caching",), verifier=HYBRID),
    row("FEA005", "dflash", ("--seed", "1"), ("--language-model-only",), verifier=VISION),
    row("FEA006", "dspark", ("--kv-transfer-config", '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}'), ("--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}')),
    row("FEA006", "dflash", ("--kv-transfer-config", '{"kv_connector": "MoRIIOConnector", "kv_role": "kv_both"}'), ("--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'), verifier=HYBRID),
    row("BKD001", "dflash", sc(attention_backend="TURBOQUANT"), sc(attention_backend="TRITON_ATTN")),
    row("BKD001", "dspark", sc(attention_backend="turboquant"), sc(attention_backend="flex_attention")),
    row("BKD001", "dflash", sc(attention_backend="FLASHINFER"), sc(attention_backend="FLASH_ATTN"), engine="0.23.0"),
    row("BKD001", "dflash", sc(attention_backend="HPC_ATTN"), sc(attention_backend="ROCM_AITER_FA")),
    row("BKD002", "dflash", ("--kv-cache-dtype", "fp8_ds_mla"), ("--kv-cache-dtype", "fp8_ds_mla", *sc(kv_cache_dtype="bfloat16"))),
    row("BKD002", "dspark", sc(kv_cache_dtype="fp8_ds_mla"), sc(kv_cache_dtype="auto")),
    row("BKD002", "peagle", ("--kv-cache-dtype=fp8_ds_mla",), ("--kv-cache-dtype=auto",)),
    row("BKD003", "dflash", sc(kv_cache_dtype="fp8"), ("--kv-cache-dtype", "fp8", *sc(kv_cache_dtype="fp8")), verifier=HYBRID),
    row("BKD004", "dflash", ("--kv-cache-dtype", "fp8"), ("--kv-cache-dtype", "bfloat16"), gpus="a100-80gb", engine="0.23.0"),
    row("BKD004", "dflash", ("--kv-cache-dtype", "fp8_e5m2"), ("--kv-cache-dtype", "fp8"), gpus="h200", engine="0.23.0"),
    row("BKD004", "dspark", ("--kv-cache-dtype", "fp8", *sc(attention_backend="FLASH_ATTN")), ("--kv-cache-dtype", "fp8", *sc(attention_backend="TRITON_ATTN")), gpus="a100-80gb"),
    row("FLG001", "dflash", ("-tp2",), ("-tp=2",)),
    row("FLG001", "peagle", ("--max-num-s", "4"), ("--max-num-se", "4")),
    row("FLG001", "dspark", ("--enforce-eager", "true"), ("--enforce-eager",)),
    row("FLG001", "dflash", ("--num-speculative-tokens", "5"), ("--stream-interval", "5")),
    row("FLG001", "dspark", ("--disable-prefix-caching",), ("--no-enable-prefix-caching",), engine="0.32.0"),
    row("FLG002", "dflash", ("--max-num-seqs", "1k"), ("--max-num-batched-tokens", "16k")),
    row("FLG002", "dspark", ("--max-num-scheduled-tokens", "1.5K"), ("--max-num-scheduled-tokens", "1.5k")),
    row("FLG002", "peagle", ("--kv-cache-dtype", "FP8"), ("--moe-backend", "Flashinfer-Cutlass"), engine="0.32.0"),
    row("FLG002", "dflash", ("--stream-interval", "0"), ("--stream-interval", "1")),
    row("FLG002", "dflash", ("--watermark", "1"), ("--watermark", "0.99")),
    row("FLG002", "dspark", ("--enable-lora=true",), ("--enable-lora",)),
    row("FLG002", "peagle", ("-cc", '{"cudagraph_mod": "FULL"}'), ("-cc", '{"cudagraph_mode": "full"}')),
    row("FLG002", "dflash", ("--attention-config.backend", "FLASHATTN"), ("--attention-config.backend", "flash_attn")),
    row("FLG002", "dspark", ("-q", "fp9"), ("-q", "fp8")),
    row("FLG002", "dflash", ("--reasoning-parser", "qwen"), ("--reasoning-parser", "qwen3")),
    row("FLG003", "dflash", ("--config=/models/flags.yaml",), ("--seed=1",)),
    row("FLG004", "dspark", ("-cc", '{"cudagraph_mode": "NONE"}', "-cc.mode", "0"), ("-cc.cudagraph_mode", "NONE", "-cc.mode", "0")),
    row("FLG005", "peagle", ("--attention-backend", "FLASH_ATTN", "-ac.backend", "TRITON_ATTN"), ("-ac.backend", "TRITON_ATTN")),
    row("SPC008", "dflash", sc(rejection_sample_method="blocks"), sc(rejection_sample_method="block")),
    row("SPC008", "peagle", sc(parallel_drafting=None), sc(parallel_drafting="yes")),
    row("SPC008", "dspark", sc(max_model_len="2k"), sc(max_model_len="2_048")),
    row("SPC008", "dflash", sc(attention_backend="FLASHATTN"), sc(attention_backend="Flash_Attn")),
    row("SPC008", "dflash", sc(quantization="bitsandbytes"), sc(quantization=None), engine="0.32.0"),
    row("RUN003", "peagle", ("--enable-return-routed-experts",), ("--no-enable-return-routed-experts",), verifier=EXPERTS),
    row("RUN005", "dflash", (f"{V2}=true",), (f"{V2}=2",)),
    row("RUN006", "dflash", ("--enable-dbo",), ("--enable-dbo", "--all2all-backend", "deepep_low_latency")),
    row("RUN006", "dflash", (f"{V2}=1", "--enable-dbo", "--all2all-backend", "nixl_ep"), (f"{V2}=0", "--enable-dbo", "--all2all-backend", "nixl_ep")),
    row("RUN006", "peagle", ("--ubatch-size", "2"), ("--ubatch-size", "1")),
    row("PAR006", "dflash", ("-tp=2", "-ep", "--eplb-config.num_redundant_experts", "2"), ("-tp=2", "-ep", "--enable-eplb", "--eplb-config.num_redundant_experts", "8"), verifier=EXPERTS),
    row("PAR007", "dflash", ("-dp=2", "-dpl=3"), ("-dp=2", "-dpl=2")),
    row("PAR007", "dspark", ("-dp=2", "-dpn=0"), ("-dp=2",)),
    row("PAR007", "dspark", ("-dp=1", "-dpe"), ("-dp=1", "--no-data-parallel-external-lb")),
    row("PAR007", "peagle", ("-dp=2", "-dph"), ("-dp=2", "-dph", "-dpl=2")),
    row("PAR007", "dflash", ("--nnodes=3", "-tp=4"), ("--nnodes=2", "-tp=4")),
    row("BUD001", "dflash", ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "2047"), ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048"), gpus="h100-80gb:1"),
    row("BUD005", "peagle", ("--cudagraph-capture-sizes", "1", "2", "5"), ("--cudagraph-capture-sizes", "1", "2", "6")),
    row("BUD005", "peagle", ("--max-cudagraph-capture-size", "7"), ("--max-cudagraph-capture-size", "8")),
    row("BUD005", "dflash", ("--cudagraph-capture-sizes", "8", *graphs([8])), ("--cudagraph-capture-sizes", "8")),
    row("BUD005", "dspark", ("--max-cudagraph-capture-size", "0"), ("--max-cudagraph-capture-size", "0", "--enforce-eager")),
    row("BUD006", "dspark", ("--long-prefill-token-threshold", "2049"), ("--long-prefill-token-threshold", "2048")),
    row("LEN002", "dflash", ("VLLM_ALLOW_LONG_MAX_MODEL_LEN=yes", "--max-model-len", "2049"), ("VLLM_ALLOW_LONG_MAX_MODEL_LEN=TRUE", "--max-model-len", "2049")),
    row("FEA001", "peagle", ("--no-kv-sharing-fast-prefill", "--kv-sharing-fast-prefill"), ("--kv-sharing-fast-prefill", "--no-kv-sharing-fast-prefill")),
    row("FEA007", "dflash", ("--kv-transfer-config", '{"kv_connector": "P2pNcclConnector", "kv_role": "kv_both"}'), ("--kv-transfer-config", '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}')),
    row("FEA007", "peagle", ("--kv-transfer-config.kv_connector=OffloadingConnector",), ("--kv-transfer-config.kv_connector=OffloadingConnector", "--kv-transfer-config.kv_role=kv_both")),
    row("ADV003", "dflash", ("--async-scheduling", *sc(disable_padded_drafter_batch=True)), ("--no-async-scheduling", *sc(disable_padded_drafter_batch=True))),
    row("BKD004", "dflash", sc(kv_cache_dtype="fp8", attention_backend="FLEX_ATTENTION"), sc(kv_cache_dtype="bfloat16", attention_backend="FLEX_ATTENTION")),
    row("BKD005", "dflash", sc(attention_backend="FLASHINFER"), sc(attention_backend="FLASH_ATTN"), gpus="b200", drafter=WIDE_HEADS),
]  # fmt: skip
