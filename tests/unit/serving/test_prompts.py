from __future__ import annotations

from pathlib import Path

import pytest

from spectool.errors import SourceError
from spectool.serving.prompts import default_prompts, read_prompts


def test_a_dozen_prompts_come_with_the_package() -> None:
    prompts = default_prompts()
    assert len(prompts) == len(set(prompts)) == 12
    assert all(prompt.strip() and len(prompt) < 200 for prompt in prompts)


def test_lines_and_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    file.write_text(
        'plain text\n\n{"prompt": "two\\nlines", "kind": 1}\r\n{ int x; }\n a\u2028b \n', encoding="utf-8", newline=""
    )
    assert read_prompts(file) == ["plain text", "two\nlines", "{ int x; }", " a\u2028b "]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no prompt"),
        (b"\n \n", "holds no prompt"),
        (b'{"prompt": 3}', 'line 1 has no "prompt"'),
        (b'ok\n{"prompt": ""}', 'line 2 has no "prompt"'),
        (b'{"text": "x"}', 'has no "prompt"'),
        (b'{"prompt": "x"', "not valid JSON"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_files_without_usable_prompts(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "prompts"
    file.write_bytes(content)
    with pytest.raises(SourceError, match=message):
        read_prompts(file)


def test_a_missing_file_and_one_that_is_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="missing: no such file"):
        read_prompts(tmp_path / "missing")
    monkeypatch.setattr("spectool.serving.prompts._MAX_BYTES", 10)
    (tmp_path / "large").write_text("x" * 11)
    with pytest.raises(SourceError, match="not a data set"):
        read_prompts(tmp_path / "large")
