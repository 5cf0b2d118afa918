"""`spectool serve FILE`: the file says what options would say, and options win."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import spectool

from spectool.cli.wish import wish_of
from spectool.deployment import read_deployment, vllm_words
from spectool.errors import UsageError


@pytest.fixture
def file(tmp_path: Path, pairs: Path) -> Path:
    (tmp_path / "models").symlink_to(pairs)
    path = tmp_path / "serve.yaml"
    path.write_text(
        "deployment_version: 1\n"
        "drafter: ./models/peagle-native\n"
        "verifier: models/verifier\n"
        "served_name: tiny\n"
        "settings: {speculative_tokens: 5}\n"
        "secrets: {VLLM_API_KEY: env:TINY_KEY}\n"
        "vllm:\n"
        "  max-model-len: 512\n"
        "  enable-prefix-caching: false\n"
        "  compilation-config: {mode: 0}\n"
    )
    return path


def test_a_file_is_served_as_options_would_be(file: Path, pairs: Path) -> None:
    done = spectool("serve", str(file), "--dry-run", "--format", "json")
    assert done.code == 0, done.err
    words = json.loads(done.out)["argv"]
    assert str((pairs / "verifier").resolve()) in words
    assert json.loads(words[words.index("--speculative-config") + 1]) == {
        "method": "eagle3",
        "model": str((pairs / "peagle-native").resolve()),
        "num_speculative_tokens": 5,
        "parallel_drafting": True,
    }
    rest = ["--max-model-len", "512", "--no-enable-prefix-caching", "--compilation-config", '{"mode": 0}']
    assert words[-7:] == [*rest, "--served-model-name", "tiny"]


def test_options_and_flags_win_over_the_file(file: Path) -> None:
    extra = ["--max-model-len", "256", "--enable-prefix-caching", "--served-model-name", "mine"]
    wish = wish_of(str(file), None, ["speculative_tokens=3"], "t4:1", extra)
    assert wish.settings == ["speculative_tokens=3"]
    assert wish.gpus == "t4:1"
    assert wish.extra == ["--compilation-config", '{"mode": 0}', *extra]


def test_a_secret_comes_from_its_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = wish_of(str(file), None, None, None, [])
    monkeypatch.setenv("TINY_KEY", "sk-0123456789")
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    monkeypatch.delenv("VLLM_ENGINE_READY_TIMEOUT_S", raising=False)
    found = wish.environment()
    assert found["VLLM_API_KEY"] == "sk-0123456789"
    assert found["VLLM_ENGINE_READY_TIMEOUT_S"] == "1800"
    monkeypatch.delenv("TINY_KEY")
    with pytest.raises(UsageError, match="TINY_KEY is not set"):
        wish.environment()


def test_every_fault_is_named_with_its_line_and_no_secret(file: Path) -> None:
    file.write_text(
        "deployment_version: 1\ndrafter: ''\nsecrets:\n  HF_TOKEN: hf_0123456789\nvllm: {api-key: sk-0123}\n"
    )
    done = spectool("serve", str(file), "--dry-run")
    assert done.code == 2
    for line, what in ((2, "drafter"), (4, "secrets.HF_TOKEN is no reference"), (5, "vllm.api-key holds a secret")):
        assert f"{file}:{line}: {what}" in done.err
    assert "hf_0123456789" not in done.err
    assert "sk-0123" not in done.err


@pytest.mark.parametrize("name", ["none.yaml", "empty.yaml"])
def test_a_file_that_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.yaml").write_text("")
    assert spectool("serve", str(tmp_path / name), "--dry-run").code == 2


@pytest.mark.parametrize("name", ["serve.yaml", "deployment.toml", "deployment.json"])
def test_the_three_spellings_say_the_same(tmp_path: Path, name: str) -> None:
    texts = {
        "serve.yaml": "deployment_version: 1\ndrafter: org/d\nvllm:\n  seed: 1\n",
        "deployment.toml": 'deployment_version = 1\ndrafter = "org/d"\nvllm.seed = 1\n',
        "deployment.json": '{"deployment_version": 1, "drafter": "org/d", "vllm": {"seed": 1}}',
    }
    (tmp_path / name).write_text(texts[name])
    found = read_deployment(str(tmp_path / name))
    assert (found.drafter, found.vllm) == ("org/d", {"seed": 1})


def test_a_value_never_becomes_a_flag() -> None:
    assert vllm_words({"chat-template": "--trust-remote-code"}) == ["--chat-template=--trust-remote-code"]
    origins = ["x", "--trust-remote-code"]  # JSON, by vllm/entrypoints/common/cli_args.py: one value, no flag
    assert vllm_words({"allowed-origins": origins}) == ["--allowed-origins", '["x", "--trust-remote-code"]']
    assert vllm_words({"served-model-name": ["x", "y"]}) == ["--served-model-name", "x", "y"]
    assert vllm_words({"seed": -1, "a": ["-1", "x"]}) == ["--seed", "-1", "--a", "-1", "x"]
    with pytest.raises(UsageError, match="flag of its own"):
        vllm_words({"served-model-name": ["x", "--trust-remote-code"]})


def test_the_served_name_may_begin_with_a_dash(file: Path) -> None:
    file.write_text("deployment_version: 1\ndrafter: org/d\nserved_name: --seed\n")
    assert wish_of(str(file), None, None, None, []).extra == ["--served-model-name=--seed"]


@pytest.mark.parametrize("text", ["a\\u001b[2J", "a\\u202eb", "a\\0b", "a\\rb", "\\ud800"])
def test_what_a_reviewer_would_not_see_is_refused(text: str, file: Path) -> None:
    file.write_text(f'deployment_version: 1\ndrafter: org/d\nenv: {{A: "x\\n\\ty", B: "{text}"}}\n')
    done = spectool("serve", str(file), "--dry-run")
    assert done.code == 2
    assert "env.B holds a control character" in done.err or "\\ud800" in text


def test_words_of_a_table() -> None:
    table = {"a": True, "b": False, "c": [1, "x y", 0.5], "d": {"e": None}, "f": "text", "g": 0.5, "h": 3}
    expected = [
        "--a",
        "--no-b",
        "--c",
        "1",
        "x y",
        "0.5",
        "--d",
        '{"e": null}',
        "--f",
        "text",
        "--g",
        "0.5",
        "--h",
        "3",
    ]
    assert vllm_words(table) == expected


@pytest.mark.parametrize("name", ["qwen3-8b-peagle", "qwen3-30b-a3b-dflash", "gemma-4-31b-dspark"])
def test_the_production_examples_say_what_their_plans_are_for(root: Path, name: str) -> None:
    folder = root / "examples" / "production" / name
    pair = json.loads((folder / "pair.json").read_text(encoding="utf-8"))
    found = read_deployment(str(folder / "serve.yaml"))
    assert (found.drafter, found.verifier, found.gpus) == (pair["drafter"], pair["verifier"], pair["gpus"])
