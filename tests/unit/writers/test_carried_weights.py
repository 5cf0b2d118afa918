"""Quantised weights are carried byte for byte with their settings, or refused with what stands in the way.

The same class, settings, names and bytes make the same layers in vLLM; these tests hold names, settings and bytes,
tests/engine/test_carried_weights_engine.py what the engine makes of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import read_back
from mutations import MIXED, PAIRS, VERIFIER, Change, Config, Tensors, both, folder, put, without
from quantise import fp8, modules

from spectool import api
from spectool.errors import RefusedError

NAMED = {"verifier": "spectool/tiny-verifier"}


def converted(tmp_path: Path, base: Path, change: Change, **more: Any) -> tuple[Path, Path, api.ConversionPlan]:
    source = folder(base, tmp_path / "source", change)
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=NAMED, **more)
    api.convert(plan, tmp_path / "out")
    return source, tmp_path / "out", plan


@pytest.mark.parametrize("base", ["dflash-zlab", "dspark-deepspec"])
def test_weights_scales_and_settings_are_carried(base: str, tmp_path: Path) -> None:
    source, out, plan = converted(tmp_path, PAIRS / base, fp8())
    before, after = (dict(read_back(place / "model.safetensors")) for place in (source, out))
    packed = {name: item for name, item in before.items() if name.rpartition(".")[0] in modules(before)}
    assert len(packed) == 2 * 7 * 2
    assert {name: after[name] for name in packed} == packed
    old, new = (json.loads((place / "config.json").read_text()) for place in (source, out))
    assert new["quantization_config"] == old["quantization_config"]
    assert new["dtype"] == "bfloat16"  # of the plain weights; scales are float32 and outnumber them
    assert any("carried as they are" in note for note in plan.output.notes)
    report = api.validate(str(out), verifier=str(VERIFIER))
    assert {item.code: item.severity for item in report.findings} == {"QNT004": "note"}


def test_a_speculators_folder_is_read_and_written_again(tmp_path: Path) -> None:
    _, first, _ = converted(tmp_path / "a", PAIRS / "dspark-deepspec", fp8())
    plan = api.plan_conversion(str(first), verifier=str(VERIFIER), settings=NAMED)
    api.convert(plan, tmp_path / "again")
    assert (tmp_path / "again" / "config.json").read_bytes() == (first / "config.json").read_bytes()
    assert read_back(tmp_path / "again" / "model.safetensors") == read_back(first / "model.safetensors")


def unsorted(config: Config, tensors: Tensors) -> None:
    config["dflash_config"]["target_layer_ids"].reverse()


def test_fc_is_permuted_beside_them(tmp_path: Path) -> None:
    source, out, _ = converted(tmp_path, PAIRS / "dflash-zlab", both(fp8(), unsorted))
    before, after = (dict(read_back(place / "model.safetensors")) for place in (source, out))
    assert {name for name in before if before[name] != after[name]} == {"fc.weight"}


SETTINGS = "quantization_config"
REFUSED: dict[str, tuple[str, Change, str]] = {
    "elsewhere": ("dflash-zlab", both(fp8(), put(SETTINGS, ...), put("compression_config", {})), "not in quantization"),
    "awq": ("dflash-zlab", both(fp8(), put(f"{SETTINGS}.quant_method", "awq")), "only the settings of"),
    "settings alone": ("dflash-zlab", put(SETTINGS, {"quant_method": "fp8"}), "no tensor is quantised"),
    "fc": ("dflash-zlab", fp8("fc"), "fc is no projection of a decoder layer"),
    "head": ("dspark-deepspec", fp8("markov_head.markov_w2"), "markov_w2 is no projection"),
    "another class": ("dflash-zlab", both(fp8(), MIXED), "another class would run it"),
    "native P-EAGLE": ("peagle-native", fp8(), "not known to reach one class"),
    "scales without a weight": (
        "dflash-zlab",
        both(fp8(), without("layers.1.mlp.up_proj.weight")),
        "TEN001|missing: layers.1.mlp.up_proj",
    ),
    "a weight without its scale": (
        "dflash-zlab",
        both(fp8(), without("layers.1.mlp.up_proj.weight_scale")),
        "no scale",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_exact_is_refused(name: str, tmp_path: Path) -> None:
    base, change, words = REFUSED[name]
    with pytest.raises(RefusedError, match=words):
        converted(tmp_path, PAIRS / base, change)
    assert not (tmp_path / "out").exists()


def test_other_formats_do_not_hold_them(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no --to zlab holds them") as error:
        converted(tmp_path, PAIRS / "dflash-zlab", fp8(), to="zlab")
    assert "vllm serve VERIFIER" in (error.value.hint or "")


def test_releases_that_misread_quantised_projections_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="reads them as plain weights"):
        converted(tmp_path, PAIRS / "dflash-zlab", fp8(), engine="0.30.0")
    converted(tmp_path / "mlp", PAIRS / "dflash-zlab", fp8("mlp"), engine="0.30.0")
