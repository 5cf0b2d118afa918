# ruff: noqa: E501 - tables: one launch, one line
"""Launches for the rules that `launch_faults` shows less than three times: a fault, and a near miss of one value.

`THIRD_PAIRS` are those that no word of the launch makes: the drafter or the verifier differs, and the launch is plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launch_faults import HYBRID, V2, VISION, WIDE_HEADS, Row, row, sc
from launches import Asked, ask_all, compose
from mutations import NATIVE, PAIRS, VERIFIER, Change, Config, Tensors, both, folder, nothing, put
from oracle import Case

AUDIO = put("audio_config", {"hidden_size": 8})
SHORT = put("max_position_embeddings", 1024)
OFFLOAD = '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}'
TOP_IDS = both(put("dflash_config.target_layer_ids", ...), put("target_layer_ids", [0, 2, 4]))
SAMPLED_ARGMAX = sc(use_local_argmax_reduction=True, draft_sample_method="probabilistic")
ONE = ("--max-num-seqs", "1")

THIRD_LAUNCHES: list[Row] = [
    row("ADV002", "dflash", (f"{V2}=1", *SAMPLED_ARGMAX), (f"{V2}=0", *SAMPLED_ARGMAX)),
    row("ADV002", "dspark", sc(use_local_argmax_reduction="true", draft_sample_method="probabilistic"), sc(use_local_argmax_reduction="false", draft_sample_method="probabilistic")),
    row("ADV003", "dspark", (f"{V2}=1", "--async-scheduling", *sc(disable_padded_drafter_batch=True)), (f"{V2}=1", "--async-scheduling", *sc(disable_padded_drafter_batch=False))),
    row("ADV005", "dspark", sc(quantization="fp8"), ("-q", "fp8")),
    row("ADV005", "peagle", ("-q", "fp8", *sc(quantization="mxfp8")), ("-q", "mxfp8")),
    row("BKD003", "dspark", sc(kv_cache_dtype="fp8_e4m3"), ("--kv-cache-dtype", "fp8_e4m3"), verifier=HYBRID),
    row("BKD003", "dflash", ("--kv-cache-dtype", "auto", *sc(kv_cache_dtype="fp8_e5m2")), ("--kv-cache-dtype", "auto", *sc(kv_cache_dtype="bfloat16")), verifier=HYBRID),
    row("BKD004", "dflash", ("--kv-cache-dtype=fp8", *sc(attention_backend="FLASH_ATTN")), ("--kv-cache-dtype=fp8", *sc(kv_cache_dtype="bfloat16", attention_backend="FLASH_ATTN")), gpus="l4:1"),
    row("BKD005", "dspark", sc(attention_backend="FLASHINFER"), sc(attention_backend="TRITON_ATTN"), gpus="b200", drafter=WIDE_HEADS),
    row("BKD005", "dflash", sc(attention_backend="flashinfer"), sc(attention_backend="auto"), gpus="gb200:2", drafter=WIDE_HEADS),
    row("BUD002", "peagle", ("--max-num-seqs", "8", "--max-num-batched-tokens", "47"), ("--max-num-seqs", "8", "--max-num-batched-tokens", "8k")),
    row("BUD002", "dspark", ("--max-num-seqs", "16", "--max-num-batched-tokens", "64"), ("--max-num-seqs", "4", "--max-num-batched-tokens", "64")),
    row("BUD003", "peagle", (*ONE, "--max-num-batched-tokens", "4k"), (*ONE, "--max-num-batched-tokens", "9k")),
    row("BUD003", "dspark", (*ONE, "--max_num_batched_tokens=8000"), (*ONE, "--max_num_batched_tokens=8192")),
    row("BUD004", "dspark", ("--gpu-memory-utilization", "0.02"), ("--gpu-memory-utilization", "0.5"), gpus="rtx-4090:1"),
    row("BUD004", "peagle", ("-tp=2", "--gpu-memory-utilization=0.01"), ("-tp=2", "--gpu-memory-utilization=0.8"), gpus="l4:2"),
    row("BUD006", "dflash", ("--max-model-len", "1024", "--long-prefill-token-threshold", "1025"), ("--max-model-len", "1024", "--long-prefill-token-threshold", "1024")),
    row("BUD006", "peagle", ("--max-model-len=1k", "--long-prefill-token-threshold=1500"), ("--max-model-len=2k", "--long-prefill-token-threshold=1500")),
    row("DTY002", "peagle", ("--dtype=float16",), ("--dtype=float32",)),
    row("FEA001", "dspark", ("--kv-sharing-fast-prefill", "--enforce-eager"), ("--enforce-eager",)),
    row("FEA003", "dspark", ("--enable-lora", "--max-loras", "2"), ("--max-loras", "2")),
    row("FEA003", "peagle", ("--no-enable-lora", "--enable-lora"), ("--enable-lora", "--no-enable-lora")),
    row("FEA004", "dspark", ("--enable-prefix-caching", "--seed", "1"), ("--seed", "1"), verifier=HYBRID),
    row("FEA004", "dflash", ("--no-enable-prefix-caching", "--enable-prefix-caching"), ("--enable-prefix-caching", "--no-enable-prefix-caching"), verifier=HYBRID),
    row("FEA005", "dspark", (), ("--language-model-only",), verifier=AUDIO),
    row("FEA005", "peagle", ("--no-language-model-only",), ("--language-model-only",), verifier=both(VISION, AUDIO)),
    row("FEA006", "dspark", ("--kv-transfer-config.kv_connector=OffloadingConnector", "--kv-transfer-config.kv_role=kv_both"), ("--no-enable-lora",)),
    row("FEA006", "dspark", ("--kv-transfer-config", OFFLOAD.replace("kv_both", "kv_consumer")), ("--kv-transfer-config", OFFLOAD.replace("Offloading", "Example"))),
    row("FEA007", "dspark", ("--kv-transfer-config", '{"kv_role": "kv_both"}'), ("--kv-transfer-config", OFFLOAD)),
    row("FLG003", "dspark", ("--config=flags.yaml", "--seed", "1"), ("--seed", "1")),
    row("FLG003", "peagle", ("--enforce-eager", "--config=/models/flags.yaml", "--config=more.yaml"), ("--enforce-eager",)),
    row("FLG004", "dflash", ("--attention-config", '{"backend": "FLASH_ATTN"}', "--attention-config.flash_attn_version", "3"), ("--attention-config.backend", "FLASH_ATTN", "--attention-config.flash_attn_version", "3")),
    row("FLG004", "peagle", ("--compilation-config", '{"mode": 0}', "--compilation-config.cudagraph_mode", "NONE"), ("--compilation-config", '{"mode": 0, "cudagraph_mode": "NONE"}')),
    row("FLG005", "dflash", ("--attention-backend", "FLASH_ATTN", "--attention-config", '{"backend": "FLASH_ATTN"}'), ("--attention-backend", "FLASH_ATTN", "--attention-config", "{}")),
    row("FLG005", "dspark", ("--attention-backend=TRITON_ATTN", "--attention-config.backend=TRITON_ATTN"), ("--attention-backend=TRITON_ATTN",)),
    row("LEN001", "dspark", (), ("--max-model-len", "1024"), drafter=SHORT, engine="0.32.0"),
    row("LEN001", "dflash", ("--max-model-len=2048",), ("--max-model-len=2047",), drafter=put("max_position_embeddings", 2047), engine="0.32.0"),
    row("PAR003", "dspark", ("-pp=2",), ("-pp=1",), verifier=put("architectures", ["GraniteForCausalLM"])),
    row("PAR003", "peagle", ("-pp=3", "--no-async-scheduling"), ("--no-async-scheduling",)),
    row("PAR004", "peagle", ("-tp=4", "-dcp=2", "--enforce-eager"), ("-tp=4", "--enforce-eager")),
    row("PAR004", "dflash", (f"{V2}=0", "-tp=4", "-dcp=2", "--dcp-kv-cache-interleave-size", "1"), (f"{V2}=0", "-tp=4", "--dcp-kv-cache-interleave-size", "1")),
    row("RUN002", "peagle", (f"{V2}=2",), (f"{V2}=00",)),
    row("RUN004", "dflash", (f"{V2}=0", "--enforce-eager"), ("--enforce-eager",), drafter=TOP_IDS),
    row("RUN004", "dflash", (f"{V2}=0",), (f"{V2}=1",), drafter=put("eagle_config", {})),
    row("RUN005", "peagle", (f"{V2}=",), (f"{V2}=0",)),
    row("RUN005", "dspark", (f"{V2}=on",), (f"{V2}=+1",)),
    row("SLT005", "peagle", sc(num_speculative_tokens=6), sc(num_speculative_tokens=5), drafter=put("num_depths", 5)),
    row("SLT005", "peagle", sc(num_speculative_tokens=9), sc(num_speculative_tokens=8), drafter=put("para_depths", 8)),
    row("SLT005", "peagle", ("--spec-tokens", "5"), ("--spec-tokens", "4"), drafter=put("para_num", 4)),
]  # fmt: skip


@dataclass(frozen=True)
class ThirdPair:
    """One pair for the plain launch: `fires` and `misses` change what `of` names."""

    code: str
    method: str
    fires: Change
    misses: Change
    of: str = "drafter"


def settings(**keys: object) -> Change:
    return put("quantization_config", dict(keys))


def scaled(module: str, **keys: object) -> Change:
    """Store a weight in one byte with a scale beside it, under these settings."""

    def change(config: Config, tensors: Tensors) -> None:
        config["quantization_config"] = dict(keys)
        _, shape, _ = tensors[f"{module}.weight"]
        tensors[f"{module}.weight"] = ("F8_E4M3", shape, bytes(shape[0] * shape[1]))
        tensors[f"{module}.weight_scale"] = ("F32", (1,), bytes(4))

    return change


THIRD_PAIRS: list[ThirdPair] = [
    ThirdPair("QNT001", "peagle", scaled("midlayer.mlp.up_proj", quant_method="marlin24"), scaled("midlayer.mlp.up_proj", quant_method="fp8", activation_scheme="dynamic")),
    ThirdPair("QNT001", "dspark", put("quantization", {"group_size": 64, "bits": 8}), put("quantization", None)),
    ThirdPair("QNT002", "peagle", settings(quant_method="awq", bits=4, group_size=128, zero_point=True), nothing),
    ThirdPair("QNT002", "dflash", scaled("layers.0.mlp.up_proj", quant_method="fp8"), scaled("layers.0.mlp.up_proj", quant_method="fp8", activation_scheme="dynamic")),
    ThirdPair("VER008", "dflash", settings(quant_method="fp8"), settings(quant_method="fp8", activation_scheme="dynamic"), "verifier"),
    ThirdPair("VER008", "dspark", settings(quant_method="gptq", bits=4, group_size=64, desc_act=False), settings(quant_method="gptq", bits=4, group_size=64, desc_act=False, sym=True), "verifier"),
    ThirdPair("VER008", "peagle", settings(quant_method="awq", w_bit=4, q_group_size=64), settings(quant_method="awq", w_bit=4, q_group_size=64, zero_point=True), "verifier"),
    ThirdPair("QNT004", "dspark", scaled("layers.0.self_attn.o_proj", quant_method="fp8", activation_scheme="static"), nothing),
    ThirdPair("QNT004", "peagle", scaled("layers.1.mlp.down_proj", quant_method="fp8", activation_scheme="dynamic"), nothing),
    ThirdPair("VER007", "dflash", settings(quant_method="fp8", activation_scheme="dynamic"), nothing, "verifier"),
    ThirdPair("VER007", "peagle", settings(quant_method="awq", bits=4, group_size=64, zero_point=True), nothing, "verifier"),
    ThirdPair("VER007", "dspark", settings(quant_method="gptq", bits=4, group_size=64, desc_act=False, sym=True), nothing, "verifier"),
]  # fmt: skip


def ask_pairs(root: Path) -> Iterator[Asked]:
    """Lay out both sides of `THIRD_PAIRS`."""
    for number, item in enumerate(THIRD_PAIRS):
        for kind, change in (("fires", item.fires), ("near miss", item.misses)):
            place = root / f"third-pair-{number}{kind[0]}"
            changed = folder(PAIRS / NATIVE[item.method] if item.of == "drafter" else VERIFIER, place / "c", change)
            drafter, verifier = (changed, VERIFIER) if item.of == "drafter" else (PAIRS / NATIVE[item.method], changed)
            flags, _ = compose(item.method, (), drafter, place)
            name = f"launch: third {number} {item.code} {item.method} on disk, {kind}"
            case: Case = {"id": name, "argv": [str(verifier), *flags]}
            yield Asked(name, item.code, kind == "fires", item.method, drafter, verifier, (), None, case)


def third_launches(root: Path) -> list[Asked]:
    """Return every launch of this module, with folders under `root`; numbers stand apart from `LAUNCHES`'."""
    return [*ask_all(enumerate(THIRD_LAUNCHES, 1000), root), *ask_pairs(root)]
