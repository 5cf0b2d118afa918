"""Where findings stand: lines of config.json, and weight files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoints import read_back, write_sharded_folder
from config_files import configs
from mutations import NATIVE, PAIRS, VERIFIER, Change, folder, put, with_zeros, without

from spectool import api
from spectool.rules.registry import Finding

LAYER = "transformer_layer_config"


def finding(path: Path, code: str) -> Finding:
    [found] = [item for item in api.validate(str(path), verifier=str(VERIFIER)).findings if item.code == code]
    return found


NATIVE_PLACES: list[tuple[str, Change, str, str]] = [
    ("dflash", put("rope_parameters.partial_rotary_factor", 0.25), "ROP002", "partial_rotary_factor"),
    ("dflash", put("dflash_config.mask_token_id", 512), "MSK002", "mask_token_id"),
    ("dflash", put("dflash_config.target_layer_ids", [0, 2, 6]), "AUX001", "target_layer_ids"),
    ("dflash", put("num_hidden_layers", 3), "LAY001", "num_hidden_layers"),
    ("dflash", put("num_target_layers", 7), "VER002", "num_target_layers"),
    ("dspark", put("markov_head_type", "gated"), "HED001", "markov_head_type"),
    ("dspark", put("markov_rank", 3), "HED002", "markov_rank"),
    ("peagle", put("ptd_token_id", 512), "MSK002", "ptd_token_id"),
]


@pytest.mark.parametrize(("method", "change", "code", "key"), NATIVE_PLACES)
def test_the_line_of_the_key_in_native_layouts(
    method: str, change: Change, code: str, key: str, tmp_path: Path
) -> None:
    found = finding(folder(PAIRS / NATIVE[method], tmp_path / "d", change), code)
    assert found.file == "config.json"
    rows = (tmp_path / "d" / "config.json").read_text(encoding="utf-8").splitlines()
    assert f'"{key}"' in rows[(found.line or 0) - 1]
    assert (found.key or "").split(".")[-1].startswith(key)


def test_a_missing_key_stands_where_its_object_begins(tmp_path: Path) -> None:
    plan = api.plan_conversion(str(PAIRS / "dflash-zlab"), verifier=str(VERIFIER), settings={"verifier": "a/b"})
    api.convert(plan, tmp_path / "base")
    found = finding(folder(tmp_path / "base", tmp_path / "d", put(f"{LAYER}.rms_norm_eps", ...)), "CFG003")
    rows = (tmp_path / "d" / "config.json").read_text(encoding="utf-8").splitlines()
    assert f'"{LAYER}"' in rows[(found.line or 0) - 1]
    assert found.key == f"{LAYER}.rms_norm_eps"


def test_every_finding_on_a_speculators_config_has_a_line(tmp_path: Path) -> None:
    for name, config in configs("bad").items():
        root = tmp_path / name
        root.mkdir()
        (root / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
        (root / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
        report = api.validate(str(root))
        assert report.findings
        for item in report.findings:
            assert item.file
            assert item.line or item.file != "config.json" or item.key is None


def test_tensors_stand_in_their_file(tmp_path: Path) -> None:
    extra = finding(folder(PAIRS / "dflash-zlab", tmp_path / "a", with_zeros("layers.0.odd.weight", 4)), "TEN002")
    assert (extra.file, extra.line, extra.key) == ("model.safetensors", None, "layers.0.odd.weight")
    gone = finding(folder(PAIRS / "dflash-zlab", tmp_path / "b", without("norm.weight")), "TEN001")
    assert (gone.file, gone.key) == ("model.safetensors", None)


def test_tensors_of_many_files(tmp_path: Path) -> None:
    config = json.loads((PAIRS / "dflash-zlab" / "config.json").read_text(encoding="utf-8"))
    tensors = read_back(PAIRS / "dflash-zlab" / "model.safetensors")
    tensors["layers.0.odd.weight"] = ("BF16", (4,), bytes(8))
    del tensors["norm.weight"]
    names = sorted(tensors)
    halves = {f"model-{n}.safetensors": {name: tensors[name] for name in names[n::2]} for n in (0, 1)}
    root = write_sharded_folder(tmp_path / "d", config, halves)
    where = next(file for file, held in halves.items() if "layers.0.odd.weight" in held)
    assert finding(root, "TEN002").file == where
    assert finding(root, "TEN001").file == "model.safetensors.index.json"
