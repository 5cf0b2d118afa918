"""`make demo` tells equal from unequal, and says plainly what it left out. The rest of it is seen by running it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FIGURES: dict[str, Any] = {"drafts": 8, "accepted": 6, "accepted_per_pos": [4, 2], "digest": "a"}


@pytest.fixture
def demo(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", root / "examples" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "OUTPUT", tmp_path / "demo")
    return module


def verdicts(demo: ModuleType) -> dict[str, Any]:
    names = ["none", *(f"{pair.method} {layout}" for pair in demo.DEMO for layout in ("native", "converted"))]
    return {name: {"id": name, "ok": True, "stage": "ok", "root": None, "extra": dict(FIGURES)} for name in names}


def test_equal_folders_pass(demo: ModuleType, capsys) -> None:
    assert demo.compare(verdicts(demo)) == 0
    assert capsys.readouterr().out.count("   yes") == len(demo.DEMO)


@pytest.mark.parametrize(
    ("key", "value"), [("drafts", 9), ("accepted", 5), ("accepted_per_pos", [3, 3]), ("digest", "b")]
)
def test_one_different_figure_fails(key: str, value: object, demo: ModuleType, capsys) -> None:
    judged = verdicts(demo)
    judged["DFlash converted"]["extra"][key] = value
    assert demo.compare(judged) == 1
    assert f"NO: {key}" in capsys.readouterr().out


def test_drafting_that_changes_the_output_fails(demo: ModuleType, capsys) -> None:
    judged = verdicts(demo)
    judged["none"]["extra"]["digest"] = "other"
    assert demo.compare(judged) == 1
    assert "NO: output without a drafter" in capsys.readouterr().out


def test_a_folder_that_does_not_load_fails(demo: ModuleType) -> None:
    judged = verdicts(demo)
    judged["DSpark converted"] |= {"ok": False, "stage": "load", "root": "no such tensor"}
    with pytest.raises(demo.DemoError, match=r"load.*DSpark converted.*no such tensor"):
        demo.compare(judged)


def test_without_an_engine_it_converts_validates_and_says_so(demo: ModuleType, monkeypatch, capfd) -> None:
    monkeypatch.delenv("SPECTOOL_TEST_ENGINE", raising=False)
    monkeypatch.setattr(demo, "why_no_engine", lambda: "no such platform")
    assert demo.main() == 0
    assert "Serving is skipped: no such platform." in capfd.readouterr().out
    assert len(list(demo.OUTPUT.glob("*/model.safetensors"))) == len(demo.DEMO)
