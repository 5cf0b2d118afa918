from __future__ import annotations

import json

import pytest

from spectool.planning.redact import hide, is_secret_name, redact_argv, redact_text, secret_values


@pytest.mark.parametrize(
    "name",
    ["--api-key", "--api_key", "HF_TOKEN", "hf_token", "hfToken", "VLLM_API_KEY", "apikey", "AWS_SECRET_ACCESS_KEY",
     "--ssl-keyfile-password", "HUGGING_FACE_HUB_TOKEN", "client_secret", "private-key", "--seed-token"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["mask_token_id", "--max-num-batched-tokens", "--tokenizer", "--long-prefill-token-threshold",
     "num_speculative_tokens",
     "--ssl-keyfile", "--kv-cache-dtype", "--port", "", "123", "key", "monkey", "tokens"],
)  # fmt: skip
def test_names_that_only_look_like_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_arguments_lose_their_secrets_and_nothing_else() -> None:
    argv = ["vllm", "serve", "m", "--api-key", "first", "second", "--port", "1", "--hf-token=abc", "--seed", "7"]
    assert redact_argv(argv) == [
        "vllm", "serve", "m", "--api-key", "***", "***", "--port", "1", "--hf-token=***", "--seed", "7",
    ]  # fmt: skip


def test_json_values_lose_secret_keys_at_any_depth() -> None:
    value = {"model": "/d", "mask_token_id": 5, "load": {"hf_token": "abc", "more": [{"api_key": ["x", 1]}], "n": None}}
    shown = json.loads(redact_argv(["--speculative-config", json.dumps(value)])[1])
    assert shown == {
        "model": "/d",
        "mask_token_id": 5,
        "load": {"hf_token": "***", "more": [{"api_key": ["***", "***"]}], "n": None},
    }
    untouched = '{"a":1}'
    assert redact_argv(["-sc=" + untouched]) == ["-sc=" + untouched]


def test_broken_json_and_logins_in_urls() -> None:
    assert redact_text('{"hf_token": "abc", "x": 1,') == '{"hf_token": ***, "x": 1,'
    assert redact_text("https://user:pa55@host/x") == "https://***@host/x"
    assert redact_text("http://host:80/a@b") == "http://host:80/a@b"


def test_secrets_are_recognised_in_a_log_line() -> None:
    argv = ["--api-key", "sk-longsecret", "-sc", '{"hf_token": "hf_inside", "model": "visible"}', "--hf-token=abc"]
    secrets = secret_values(argv, {"HF_TOKEN": "hf_fromenv", "PATH": "/usr/bin", "VLLM_API_KEY": "EMPTY"})
    assert secrets == {"sk-longsecret", "hf_inside", "hf_fromenv"}
    assert hide("args: sk-longsecret hf_fromenv visible", secrets) == "args: *** *** visible"
