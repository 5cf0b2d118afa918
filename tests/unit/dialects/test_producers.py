"""The dialect fixtures against what producers' released packages save (`tests/fixtures/producers.py` made the files).

Names, shapes and dtypes are the same; so is every key of the configuration that the fixture states and the dialect
reads, where a package of today writes the generation of the fixture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from dialect_fixtures import ALL

from spectool.dialects.detect import candidates
from spectool.dialects.view import Spec, View

MADE = Path(__file__).resolve().parents[2] / "fixtures"
NAMES = sorted(path.stem for path in MADE.glob("*.json"))
# What a fixture states on purpose and a package's own defaults do not: yarn, the noise of a verifier's configuration.
OTHERWISE = {
    "dspark-specforge": {"rope_parameters"},
    "peagle-specforge": {"rope_parameters"},
    "peagle-nemo-reduced": {"model_type"},
    "dspark-speculators-090": {"sliding_window_non_causal", "layer_types", "sliding_window"},
    "peagle-speculators-090": {"norm_before_residual"},
}
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


def made(name: str) -> dict[str, Any]:
    return dict(json.loads((MADE / f"{name}.json").read_text(encoding="utf-8")))


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with Speculators' decoder at the top, and of its proposals what vLLM reads."""
    top = {key: value for key, value in config.items() if key not in {"transformer_layer_config", "speculators_config"}}
    for method in config.get("speculators_config", {}).get("proposal_methods", ()):
        top["speculative_tokens"] = method["speculative_tokens"]
    return {**config.get("transformer_layer_config", {}), **top}


def test_there_are_some() -> None:
    methods = ("dflash", "dspark", "peagle")
    assert {f"{method}-{name}" for method in methods for name in ("specforge", "speculators-090")} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_those_the_package_saves(name: str) -> None:
    ours = {key: [spec.dtype, list(spec.shape)] for key, spec in ALL[name].view.tensors.items()}
    assert ours == made(name)["tensors"]


@pytest.mark.parametrize("name", NAMES)
def test_the_configuration_is_the_packages(name: str) -> None:
    theirs, ours = flat(made(name)["config"]), flat(ALL[name].view.config)
    shared = [key for key in ours if key in theirs and key not in OTHERWISE.get(name, set())]
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
    assert set(SIZES) | {"architectures"} <= set(shared)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_package_saves_is_recognised(name: str) -> None:
    document = made(name)
    tensors = {key: Spec(dtype, tuple(shape)) for key, (dtype, shape) in document["tensors"].items()}
    found = candidates(View(name, document["config"], tensors))
    assert [item.file.dialect for item in found] == [ALL[name].dialect]
    assert document["version"]
