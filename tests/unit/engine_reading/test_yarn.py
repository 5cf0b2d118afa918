"""Yarn's amplitude on queries and keys, which vLLM took from other keys before 0.30."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from mutations import PAIRS, VERIFIER, folder, put

from spectool import api

PLAIN = 0.1 * math.log(4.0) + 1  # factor 4


def codes(tmp_path: Path, engine: str, settings: dict[str, Any] | None = None, **keys: float) -> list[str]:
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 2048, **keys}
    change, number = put("rope_parameters", yarn), len(list(tmp_path.iterdir()))
    drafter = folder(PAIRS / "dflash-zlab", tmp_path / f"d{number}", change)
    verifier = folder(VERIFIER, tmp_path / f"v{number}", change)  # else ROP003 notes the difference
    report = api.validate(str(drafter), verifier=str(verifier), engine=engine, settings=settings)
    return [finding.code for finding in report.findings]


@pytest.mark.parametrize("engine", ["0.29.0", "0.30.0"])
def test_without_a_key_all_agree(engine: str, tmp_path: Path) -> None:
    assert codes(tmp_path, engine) == []
    assert codes(tmp_path, engine, mscale=1.0) == []  # one of the two alone is read by nobody


def test_a_stated_factor_counts_from_a_release_on(tmp_path: Path) -> None:
    assert codes(tmp_path, "0.29.0", attention_factor=1.0) == ["ROP002"]
    assert codes(tmp_path, "0.29.0", attention_factor=PLAIN) == []
    assert codes(tmp_path, "0.30.0", attention_factor=1.0) == []


@pytest.mark.parametrize(("engine", "right"), [("0.29.0", f"{PLAIN:.9g}"), ("0.30.0", "1")])
def test_two_scales_are_a_question_with_two_answers(engine: str, right: str, tmp_path: Path) -> None:
    assert codes(tmp_path, engine, mscale=1.0, mscale_all_dim=1.0) == ["CFG005"]
    for answer in ("1", f"{PLAIN:.9g}"):
        settings = {"rope.attention_factor": float(answer)}
        found = codes(tmp_path, engine, settings, mscale=1.0, mscale_all_dim=1.0)
        assert found == ([] if answer == right else ["ROP002"])
