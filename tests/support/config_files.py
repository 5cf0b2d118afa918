"""The config files of `tests/data/configs`, and the converted pairs, as parsed JSON."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from mutations import NATIVE, PAIRS, VERIFIER

from spectool import api

DATA = Path(__file__).resolve().parents[1] / "data" / "configs"
ROOT = Path(__file__).resolve().parents[2]


def files(group: str) -> list[Path]:
    """All files of `good`, `bad`, `odd` or `others`."""
    found = sorted(path for path in (DATA / group).glob("*/*") if path.is_file())
    assert found
    return found


def named(paths: list[Path]) -> list[str]:
    """Their folders' names, for test ids."""
    return [path.parent.name for path in paths]


def configs(*groups: str) -> dict[str, dict[str, Any]]:
    """Speculators configs by folder name."""
    paths = [path for group in groups for path in files(group) if path.name == "config.json"]
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


@cache
def plan(method: str) -> api.ConversionPlan:
    """The conversion plan of a method's example pair."""
    settings = {"verifier": "spectool/tiny-verifier", **({"speculative_tokens": 5} if method == "peagle" else {})}
    return api.plan_conversion(str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), settings=settings)
