"""Written folders: carriers are known by their bytes, scaled embeddings hold the scaled values."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from checkpoints import read_back, write_checkpoint_folder
from mutations import PAIRS, VERIFIER, Change, both, folder, put, without

from spectool import api
from spectool.drafter.model import ZERO
from spectool.errors import RefusedError, UsageError

NAMED = {"verifier": "org/verifier"}
MIXED = both(
    put("layer_types", ["sliding_attention", "full_attention"]),
    put("sliding_window", 8),
    put("use_sliding_window", True),
)


def carrier(tmp_path: Path, *more: Change) -> Path:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", both(MIXED, *more))
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=NAMED)
    api.convert(plan, tmp_path / "out")
    return tmp_path / "out"


def codes(drafter: Path) -> list[str]:
    return [finding.code for finding in api.validate(str(drafter), verifier=str(VERIFIER)).findings]


def test_the_head_of_a_carrier_is_zero_and_recorded_as_made(tmp_path: Path) -> None:
    out = carrier(tmp_path)
    tensors = read_back(out / "model.safetensors")
    assert tensors["markov_head.markov_w1.weight"] == ("BF16", (512, 16), bytes(512 * 16 * 2))
    source = read_back(tmp_path / "source" / "model.safetensors")
    assert {name: item for name, item in tensors.items() if "markov" not in name} == source
    record = json.loads((out / "provenance.json").read_text())
    made = {item["name"]: (item["source"], item["operation"]) for item in record["tensors"] if "markov" in item["name"]}
    assert set(made.values()) == {("", "zeros")}


def test_a_carrier_is_known_without_its_record(tmp_path: Path) -> None:
    out = carrier(tmp_path)
    (out / "provenance.json").unlink()
    assert codes(out) == []
    assert api.inspect(str(out)).reading.drafter.markov.kind == ZERO


def test_a_head_that_is_not_zero_is_a_markov_head(tmp_path: Path) -> None:
    out = carrier(tmp_path)
    tensors: dict[str, Any] = dict(read_back(out / "model.safetensors"))
    dtype, shape, data = tensors["markov_head.markov_w2.weight"]
    tensors["markov_head.markov_w2.weight"] = (dtype, shape, b"\x80\x3f" + data[2:])
    write_checkpoint_folder(out, json.loads((out / "config.json").read_text()), tensors)
    assert api.inspect(str(out)).reading.drafter.markov.kind == "vanilla"
    assert codes(out) == []  # a head like any other


def test_what_only_a_record_says_is_missed_without_it(tmp_path: Path) -> None:
    out = carrier(tmp_path, put("dflash_config.attention_value_scale", 0.5))
    assert codes(out) == []
    (out / "provenance.json").unlink()
    assert codes(out) == ["EMB001"]  # Speculators' trainer knows no value scale


@pytest.mark.parametrize("version", ["0.25.1", "0.30.0"])
def test_a_release_without_the_feature_is_refused(version: str, tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "s", both(MIXED, put("dflash_config.attention_value_scale", 0.5)))
    with pytest.raises(RefusedError):
        api.plan_conversion(str(source), verifier=str(VERIFIER), settings=NAMED, engine=version)
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=NAMED, engine="0.31.0")
    assert "by their sources vLLM 0.31.0 and later read it so" in plan.output.notes


SCALED = {**NAMED, "embedding_scale": 11.3125}  # sqrt(128) = 11.3137 as bf16


def gemma(tmp_path: Path, *more: Change) -> Path:
    return folder(VERIFIER, tmp_path / "gemma", both(put("model_type", "gemma3_text"), *more))


def test_gemmas_embedding_is_shipped_scaled(tmp_path: Path) -> None:
    verifier = gemma(tmp_path)
    plan = api.plan_conversion(str(PAIRS / "dflash-zlab"), verifier=str(verifier), settings=SCALED)
    api.convert(plan, tmp_path / "out")
    _, shape, found = read_back(tmp_path / "out" / "model.safetensors")["embed_tokens.weight"]
    _, _, before = read_back(VERIFIER / "model.safetensors")["model.embed_tokens.weight"]
    assert shape == (512, 128)
    scale = 11.3125
    for place in range(0, 4096, 2):
        (old,) = struct.unpack("<f", b"\0\0" + before[place : place + 2])
        (new,) = struct.unpack("<f", b"\0\0" + found[place : place + 2])
        assert abs(new - old * scale) <= abs(old * scale) / 256
    assert api.validate(str(tmp_path / "out"), verifier=str(verifier)).findings == ()


def test_gemmas_embedding_needs_its_weights(tmp_path: Path) -> None:
    verifier = gemma(tmp_path, without("model.embed_tokens.weight"))
    with pytest.raises(RefusedError, match="VER004"):
        api.plan_conversion(str(PAIRS / "dflash-zlab"), verifier=str(verifier), settings=SCALED)
    (verifier / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="has to be shipped"):
        api.plan_conversion(str(PAIRS / "dflash-zlab"), verifier=str(verifier), settings=SCALED)
