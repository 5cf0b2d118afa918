"""The file of `--config`, read as vLLM reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectool.errors import SpectoolError, UsageError
from spectool.planning.flag_file import file_name, keys_of, read_file, with_file
from spectool.planning.parser import table
from spectool.rules.launch import read_launch

NAMES = table("0.32.0").names
TEXT = """
# a comment
port: 8001  # here
host: "::"
max_model_len: 0x200
enforce-eager: yes
enable-lora: false
headless: false
cudagraph-capture-sizes: [1, 2]
'compilation-config':
  cudagraph_mode: NONE
"""


def test_words_of_a_file_come_first(tmp_path: Path) -> None:
    path = tmp_path / "flags.yaml"
    path.write_text(TEXT)
    assert with_file(["--seed", "1", "--config", str(path), "--port", "9"], NAMES) == [
        *("--port", "8001", "--host", "::", "--max_model_len", "512", "--enforce-eager", "--no-enable-lora"),
        *("--cudagraph-capture-sizes", "1", "2", "--compilation-config", '{"cudagraph_mode": "NONE"}'),
        *("--seed", "1", "--port", "9"),
    ]
    launch = read_launch(["--config", str(path), "--max-model-len", "256"], version="0.32.0")
    assert (launch.own.length, launch.value("--port"), launch.faults) == (256, "8001", ())
    assert keys_of(read_file(str(path)))["enforce-eager"] == "true"


def test_a_nested_speculative_configuration_counts(tmp_path: Path) -> None:
    path = tmp_path / "flags.yml"
    path.write_text("speculative_config:\n  num_speculative_tokens: 3\n")
    assert read_launch(["--config", str(path)]).tokens == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flags.json", '{"port": 1}'),
        ("flags.yaml", "- port\n"),
        ("flags.yaml", ""),
        ("flags.yaml", "port: [1\n"),
        ("none.yaml", None),
    ],
)
def test_files_that_vllm_does_not_take(name: str, text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(SpectoolError):
        with_file(["--config", str(tmp_path / name)], NAMES)


def test_only_two_words_name_a_file() -> None:
    assert file_name(["--config=x.yaml", "--conf", "y.yaml"]) is None
    assert file_name(["--config", "x.yaml"]) == "x.yaml"
    for words in (["--config"], ["--config", "a.yaml", "--config", "b.yaml"]):
        with pytest.raises(UsageError):
            file_name(words)
