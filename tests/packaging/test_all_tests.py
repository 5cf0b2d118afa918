"""`make test` forgets no test."""

from __future__ import annotations

from pathlib import Path

import all_tests
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("engine", ["", "python"])
def test_every_test_file_is_in_exactly_one_part(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTOOL_TEST_ENGINE", engine)
    parts = [ROOT / name for name in all_tests.parts()]
    for file in (ROOT / "tests").rglob("test_*.py"):
        assert sum(file == part or part in file.parents for part in parts) == 1, file


def test_the_long_parts_exist() -> None:
    for name in all_tests.LONGEST:
        assert (ROOT / name).exists(), name


def test_a_failed_part_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("told\n")
    codes = {"a": 0, "b": 1, "c": 0}
    monkeypatch.setattr(all_tests, "LOGS", all_tests.ROOT / "build" / "tests")
    monkeypatch.setattr(all_tests, "parts", lambda: list(codes))
    monkeypatch.setattr(all_tests, "run", lambda name: all_tests.Part(name, codes[name], 0.0, tmp_path / "log"))
    assert all_tests.main([]) == 1
    codes["b"] = 0
    assert all_tests.main([]) == 0
