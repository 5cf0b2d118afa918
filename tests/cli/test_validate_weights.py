"""`validate --weights`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import spectool
from mutations import NATIVE, PAIRS, VERIFIER, Config, Tensors, folder


@pytest.mark.parametrize("method", NATIVE)
def test_good_pairs(method: str) -> None:
    outcome = spectool("validate", str(PAIRS / NATIVE[method]), "--verifier", str(VERIFIER), "--weights")
    assert (outcome.code, outcome.err) == (0, "")


def test_a_nan_is_exit_1(tmp_path: Path) -> None:
    def spoil(config: Config, tensors: Tensors) -> None:
        dtype, shape, data = tensors["fc.weight"]
        tensors["fc.weight"] = (dtype, shape, b"\xc0\x7f" + data[2:])

    broken = str(folder(PAIRS / "dflash-zlab", tmp_path / "d", spoil))
    assert spectool("validate", broken, "--verifier", str(VERIFIER)).code == 0
    outcome = spectool("validate", broken, "--verifier", str(VERIFIER), "--weights", "--format", "json")
    [finding] = json.loads(outcome.out)["findings"]
    assert (outcome.code, finding["code"], finding["key"]) == (1, "WGT001", "fc.weight")
    assert finding["message"] == "fc.weight has NaN at [0, 0]"
    assert spectool("validate", broken, "--weights", "--select", "WGT002").code == 0
