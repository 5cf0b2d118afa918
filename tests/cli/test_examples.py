"""The help's examples are commands that exist, and its one-line descriptions fit a terminal of 80 columns."""

from __future__ import annotations

import re
import shlex

import pytest
from command_line import spectool

from spectool.cli.examples import BRIEF, EXAMPLES
from spectool.cli.main import COMMANDS

LINES = [(name, re.split(r"\s{3,}", line)[0]) for name, lines in EXAMPLES.items() for line in lines]


def test_each_command_is_described_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = spectool("--help").out
    assert set(BRIEF) == set(COMMANDS)
    assert all(text in shown for text in BRIEF.values())


@pytest.mark.parametrize(("name", "line"), LINES, ids=[line for _, line in LINES])
def test_an_example_is_a_command_with_options_that_exist(name: str, line: str) -> None:
    words = shlex.split(line)
    own = words[: words.index("--")] if "--" in words else words
    assert own[:2] == ["spectool", name]
    shown = spectool(name, "--help").out
    for option in (word for word in own if word.startswith("--")):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", shown)
    assert f"  {line}" in shown
    assert len(line) <= 88
