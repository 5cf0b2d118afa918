from __future__ import annotations

import pytest

from spectool.errors import UsageError
from spectool.planning.own import Own, own_flags


def test_nothing_given_leaves_everything_free() -> None:
    assert own_flags([]) == Own()


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--tensor-parallel-size", "2"], "tensor_parallel", 2),
        (["-tp=2"], "tensor_parallel", 2),
        (["--tensor_parallel_size=2"], "tensor_parallel", 2),
        (["--tensor-par", "2"], "tensor_parallel", 2),
        (["--max-model-len", "32k"], "length", 32_000),
        (["--max-model-len", "32K"], "length", 32_768),
        (["--max-model-len", "25.6k"], "length", 25_600),
        (["--max-model-len", "auto"], "length", None),
        (["--max-model-len", "4096", "--max-model-len", "8192"], "length", 8192),
        (["--max-num-seqs", "64"], "sequences", 64),
        (["--max-num-batched-tokens", "8k"], "batched_tokens", 8_000),
        (["--gpu-memory-utilization", "0.9"], "utilization", 0.9),
        (["--kv-cache-dtype", "fp8"], "kv_dtype", "fp8"),
        (["--no-enable-prefix-caching"], "prefix_caching", False),
        (["--no-async-scheduling"], "async_scheduling", False),
        (["--enable-dbo"], "micro_batches", True),
    ],
)
def test_a_flag(words: list[str], field: str, value: object) -> None:
    assert getattr(own_flags(words), field) == value


def test_the_command_line_wins_over_the_file() -> None:
    keys = {"max-model-len": "4096", "enable-dbo": "true", "async-scheduling": "false"}
    own = own_flags(["--max-model-len", "8192"], keys)
    assert (own.length, own.micro_batches, own.async_scheduling) == (8192, True, False)
    assert {"--enable-dbo", "--max-model-len", "--no-async-scheduling"} <= own.names


@pytest.mark.parametrize(
    "words",
    [
        ["--max-model-len", "many"],
        ["--max-model-len", "0"],
        ["--max-num-seqs", "1.5"],
        ["--gpu-memory-utilization", "92"],
        ["--gpu-memory-utilization", "0"],
        ["--tensor-parallel-size"],
    ],
)
def test_a_value_that_is_none(words: list[str]) -> None:
    if len(words) == 1:
        assert own_flags(words).tensor_parallel is None  # vLLM says what is missing
        return
    with pytest.raises(UsageError, match=words[0]):
        own_flags(words)


def test_what_the_planner_does_not_count() -> None:
    assert own_flags(["-q", "fp8", "--disable-hybrid-kv"]).uncounted == [
        "--disable-hybrid-kv-cache-manager",
        "--quantization",
    ]
