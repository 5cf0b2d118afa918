"""The example drafters' weights relabelled into the layouts vLLM does not load: converted, they are byte for byte what
the conversion of the example itself gives, so that what the engine does with one it does with the other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import read_back
from mutations import NATIVE, PAIRS, VERIFIER, folder, nothing, put
from relabelled import CASES, K5, NAMED, NEMO, UNSHIPPED, unshipped

from spectool import api


def output(source: Path, out: Path, settings: dict[str, Any]) -> tuple[Any, Any, api.ConversionPlan]:
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings={**NAMED, **settings})
    api.convert(plan, out)
    return json.loads((out / "config.json").read_text()), read_back(out / "model.safetensors"), plan


@pytest.mark.parametrize("name", sorted(CASES))
def test_it_converts_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    method, change, settings = CASES[name]
    example = folder(PAIRS / NATIVE[method], tmp_path / "example", unshipped if name in UNSHIPPED else nothing)
    wanted_config, wanted, _ = output(example, tmp_path / "a", K5 if method == "peagle" else {})
    found_config, found, plan = output(folder(example, tmp_path / "source", change), tmp_path / "b", settings)
    assert plan.inspection.dialect.file.dialect == name.partition(" ")[0]
    assert found_config == wanted_config
    assert found == wanted


def test_nemo_takes_the_default_layers_of_its_verifier(tmp_path: Path) -> None:
    """NeMo's file names no layers; the default of eight is 2, 4, 5, so that is what the example is held against."""
    deep = folder(VERIFIER, tmp_path / "verifier", put("num_hidden_layers", 8))
    example = folder(PAIRS / NATIVE["peagle"], tmp_path / "example", nothing)
    outputs = []
    for name, change, settings in (
        ("plain", put("eagle_config.eagle_aux_hidden_state_layer_ids", [2, 4, 5]), K5),
        ("nemo", NEMO, {}),
    ):
        source = folder(example, tmp_path / name, change)
        plan = api.plan_conversion(str(source), verifier=str(deep), settings={**NAMED, **settings})
        api.convert(plan, tmp_path / f"{name}-out")
        config = json.loads((tmp_path / f"{name}-out" / "config.json").read_text())
        outputs.append((config, read_back(tmp_path / f"{name}-out" / "model.safetensors")))
    assert plan.inspection.dialect.file.dialect == "peagle-nemo"
    assert outputs[0] == outputs[1]
