# ruff: noqa: E501 - tables: one command line, one line
"""Command lines as vLLM's own parser reads them: what it makes of them, and what it refuses.

Each line was put to vLLM 0.32's parser; what differs in 0.33 stands apart.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectool.engine.facts import known_versions
from spectool.planning.parser import known_tables, parse, spelled_out, table
from spectool.planning.parsing_values import human, length, whole

OLD, NEW = table("0.32.0"), table("0.33.0")


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["-tp", "2"], ["--tensor-parallel-size=2"]),
        (["-tp=2"], ["--tensor-parallel-size=2"]),
        (["--tensor_parallel_size=2"], ["--tensor-parallel-size=2"]),
        (["--tensor-para", "2"], ["--tensor-parallel-size=2"]),
        (["--max-model-len", "-1"], ["--max-model-len=-1"]),
        (["-qfp8"], ["--quantization=fp8"]),
        (["-O3"], ["--optimization-level=3"]),
        (["-O=0"], ["--optimization-level=0"]),
        (["-O", "1"], ["--optimization-level=1"]),
        (["-ep"], ["--enable-expert-parallel"]),
        (["--enable-lora", "--no-enable-lora"], ["--no-enable-lora"]),
        (["--no-enable-lora", "--enable-lora", "--seed", "1"], ["--enable-lora", "--seed=1"]),
        (["--seed", "1", "--enforce-eager", "--seed", "2"], ["--enforce-eager", "--seed=2"]),
        (["--api-key", "a", "b", "--seed", "1"], ["--api-key", "a", "b", "--seed=1"]),
        (["-cc.cudagraph_mode", "NONE", "-cc.pass_config.fuse_norm_quant=true"], ['--compilation-config={"cudagraph_mode": "NONE", "pass_config": {"fuse_norm_quant": true}}']),
        (["-cc.cudagraph_capture_sizes+=8,16"], ['--compilation-config={"cudagraph_capture_sizes": ["8", "16"]}']),
        (["--kv_transfer_config.kv_port", "14k", "--kv-transfer-config.kv_connector=x"], ['--kv-transfer-config={"kv_port": 14000, "kv_connector": "x"}']),
        (["--hf-overrides", '{"a.b": 1}'], ['--hf-overrides={"a.b": 1}']),
        (["--served-model-name", "a.b"], ["--served-model-name=a.b"]),
    ],
)  # fmt: skip
def test_what_vllm_reads(words: list[str], read: list[str]) -> None:
    found = parse(words, OLD)
    assert (found.words, found.faults) == (read, [])
    assert parse(found.words, OLD).words == read


@pytest.mark.parametrize(
    ("words", "kind", "text"),
    [
        (["-tp2"], "flag", "no flag -tp2"),
        (["--tensor-parallel-sizee", "2"], "flag", "no flag --tensor-parallel-sizee"),
        (["--max-num-s", "2"], "flag", "could be --max-num-scheduled-tokens, --max-num-seqs"),
        (["--kv-cache-d", "fp8"], "flag", "could be --kv-cache-dtype, --kv-cache-dtype-skip-layers"),
        (["--enforce-eager", "true"], "flag", "'true' belongs to no flag"),
        (["--seed", "1", "2"], "flag", "'2' belongs to no flag"),
        (["--", "--seed", "1"], "flag", "'--' belongs to no flag"),
        (["--disable-prefix-caching"], "flag", "no flag --disable-prefix-caching"),
        (["--speculative-config.method"], "value", "has no value"),
        (["--enforce-eager=true"], "value", "takes no value"),
        (["--seed"], "value", "--seed has no value"),
        (["--seed", "--enforce-eager"], "value", "--seed has no value"),
        (["--api-key"], "value", "--api-key has no value"),
        (["--seed", "x"], "value", "a whole number is needed"),
        (["--max-num-seqs", "1k"], "value", "a whole number is needed"),
        (["--max-model-len", "1.5K"], "value", "or auto is needed"),
        (["--max-model-len", "512.0"], "value", "or auto is needed"),
        (["--gpu-memory-utilization", "1.01"], "value", "at most 1"),
        (["--gpu-memory-utilization", "0"], "value", "above 0"),
        (["--gpu-memory-utilization", "nan"], "value", "above 0"),
        (["--watermark", "1"], "value", "below 1"),
        (["--stream-interval", "0"], "value", "at least 1"),
        (["--optimization-level", "4"], "value", "one of 0, 1, 2, 3"),
        (["--dtype", "fp16"], "value", "one of auto"),
        (["--attention-backend", "XFORMERS"], "value", "no such attention backend"),
        (["-q", "gguf"], "value", "no such quantisation"),
        (["-cc", "3"], "value", "a JSON object is needed"),
        (["-cc", '{"mode": '], "value", "JSON is needed"),
        (["-cc", '{"level": 3}'], "value", "no key 'level'"),
        (["-cc", '{"mode": 9}'], "value", "mode is 9"),
        (["-cc.cudagraph_mode", "FULLY"], "value", "cudagraph_mode is 'FULLY'"),
        (["-cc", '{"pass_config": {"enable_sp2": 1}}'], "value", "pass_config: it has no key 'enable_sp2'"),
        (["--kv-transfer-config", '{"kv_role": "both"}'], "value", "kv_role is 'both'"),
        (["--structured-outputs-config.backend", "grammar"], "value", "one of auto, xgrammar"),
    ],
)  # fmt: skip
def test_what_vllm_refuses(words: list[str], kind: str, text: str) -> None:
    faults = parse(words, OLD).faults
    assert (faults[0].kind, text in faults[0].message) == (kind, True), faults


@pytest.mark.parametrize(
    "words",
    [
        ["--max-model-len", "1.5k"],
        ["--max-model-len", " 1_024 "],
        ["--max-model-len", "AUTO"],
        ["--seed", "+5"],
        ["--watermark", "0.99"],
        ["--quantization", ""],
        ["--quantization", "None"],
        ["--attention-backend", "flash_attn"],
        ["--attention-backend", "auto"],
        ["--moe-backend", "Flashinfer-Cutlass"],
        ["-cc", '{"mode": 3}'],
        ["-cc", '{"cudagraph_mode": "full_decode_only"}'],
        ["-cc", '{"cudagraph_capture_sizes": [1, 2], "max_cudagraph_capture_size": "2"}'],
        ["--kv-transfer-config", '{"kv_connector": "x", "kv_port": 14k}'],
        ["--video-pruning-rate", "2"],  # its class is made for multimodal verifiers only
        ["--hf-token", "--seed", "1"],  # a value that may be left out
    ],
)
def test_what_vllm_takes(words: list[str]) -> None:
    assert parse(words, OLD).faults == []


def test_shortened_flags_are_written_out_in_their_place() -> None:
    words = ["--por", "9", "--max-num-s", "2", "--served_model=x", "-tp", "2", "--head", "--no-enable-pre", "--x", "a"]
    assert spelled_out(words, OLD) == [
        *("--port", "9", "--max-num-s", "2", "--served-model-name=x", "-tp", "2", "--headless"),
        *("--no-enable-prefix-caching", "--x", "a"),
    ]
    assert spelled_out(["--max_model_len=4", "-sc.method", "x", "-"], OLD) == [
        "--max_model_len=4",
        "-sc.method",
        "x",
        "-",
    ]


def test_033_has_opposites_without_no() -> None:
    words = ["--disable-prefix-caching", "--enable-custom-all-reduce"]
    assert parse(words, NEW).words == ["--no-enable-prefix-caching", "--no-disable-custom-all-reduce"]
    assert [fault.kind for fault in parse(words, OLD).faults] == ["flag", "flag"]


def test_a_dotted_key_replaces_the_whole_value() -> None:
    found = parse(["-cc", '{"mode": 3}', "-cc.cudagraph_mode", "NONE"], OLD)
    assert (found.words, found.replaced) == (
        ['--compilation-config={"cudagraph_mode": "NONE"}'],
        ["--compilation-config"],
    )
    assert parse(["-cc.mode", "3", "-cc.cudagraph_mode", "NONE"], OLD).replaced == []


def test_the_stored_flags_of_033_are_those_its_parser_has(root: Path) -> None:
    """tests/golden/vllm-flags was made by running the release; spectool/data/flags by reading its source."""
    ran = set(json.loads((root / "tests/golden/vllm-flags/0.33.0.json").read_text(encoding="utf-8"))["flags"])
    # Hidden from vLLM's help, and taken all the same.
    assert {name for name in NEW.names if name not in ran} == {
        name for name in NEW.names if name.startswith("--no-")
    } - ran
    assert ran - set(NEW.names) == set()


def test_every_release_has_its_flags() -> None:
    assert known_tables() == known_versions()
    for version in known_tables():
        known = table(version)
        assert known.version == version
        assert {"--tensor-parallel-size", "--max-model-len", "--speculative-config"} <= set(known.shapes)
        assert known.shapes["--max-model-len"]["takes"] == "length"
        assert {"num_speculative_tokens", "method"} <= set(known.classes["SpeculativeConfig"])
        assert "FLASH_ATTN" in known.attention_backends


@given(st.lists(st.one_of(st.sampled_from(sorted(OLD.names)), st.text(max_size=8), st.sampled_from(["1", "-1", "{}", "-", "--", "-cc.a", "x=y", "--seed=1"])), max_size=8))  # fmt: skip
def test_any_words_are_read_without_a_crash(words: list[str]) -> None:
    found = parse(words, OLD)
    if not found.faults:
        assert parse(found.words, OLD).words == found.words


@given(st.text(max_size=12))
def test_numbers_are_those_of_python(text: str) -> None:
    try:
        expected = int(text)
    except ValueError:
        expected = None
    assert whole(text) == expected
    assert human(text) == expected or text.strip()[-1:] in "kKmMgGtT"


@pytest.mark.parametrize(("text", "number"), [("8k", 8000), ("8K", 8192), ("25.6k", 25600), ("1.5K", None), ("auto", -1), ("2M", 2 << 20), ("k", None)])  # fmt: skip
def test_lengths(text: str, number: int | None) -> None:
    assert length(text) == number


@pytest.mark.parametrize("tail", ["", "k", "K", ".5k", "T"])
@pytest.mark.parametrize("digits", [41, 400, 5000])
def test_a_number_of_many_digits_is_none(digits: int, tail: str) -> None:
    """A float of 400 digits is infinite, and Python refuses to read a whole number of 5000."""
    text = "9" * digits + tail
    assert length(text) is None
    assert parse(["--max-model-len", text, "-cc", f'{{"level": {text}}}'], table()).faults
