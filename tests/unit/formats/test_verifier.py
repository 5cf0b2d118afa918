"""Verifiers whose config.json says a thing in another place or spelling than most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spectool.errors import SourceError
from spectool.formats.verifier import verifier_view
from spectool.loading import load_drafter, load_verifier

HYBRID: dict[str, Any] = {"architectures": ["NemotronHForCausalLM"], "hidden_size": 8, "vocab_size": 16}


@pytest.mark.parametrize(
    ("stated", "layers"),
    [
        ({"layers_block_type": ["mamba", "moe", "attention"]}, 3),
        ({"hybrid_override_pattern": "MEM*E"}, 5),
        # A count beside the pattern is the count: with both, transformers warns where they differ.
        ({"hybrid_override_pattern": "MEM*E", "num_hidden_layers": 4}, 4),
    ],
)
def test_layers_of_a_hybrid_are_counted(stated: dict[str, Any], layers: int) -> None:
    assert verifier_view("nemotron", {**HYBRID, **stated}).num_hidden_layers == layers


@pytest.mark.parametrize("stated", [{}, {"layers_block_type": []}, {"hybrid_override_pattern": 3}])
def test_without_any_layers_it_is_no_verifier(stated: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="num_hidden_layers"):
        verifier_view("nemotron", {**HYBRID, **stated})


def write(folder: Path, text: str, **more: str) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(text)
    for name, content in more.items():
        (folder / f"{name}.json").write_text(content)
    return folder


NUMBERS = '"hidden_size": 8, "vocab_size": 16, "num_hidden_layers": 2'


def test_a_number_that_only_python_writes_is_read_and_in_a_drafter_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "verifier", f'{{{NUMBERS}, "time_step_limit": [0.0, Infinity]}}')
    loaded = load_verifier(str(path))
    assert loaded.view is not None
    assert loaded.view.num_hidden_layers == 2
    with pytest.raises(SourceError, match="Infinity is not JSON"):
        load_drafter(str(path))


def test_settings_of_a_quantisation_beside_the_config_count(tmp_path: Path) -> None:
    plain = load_verifier(str(write(tmp_path / "plain", f"{{{NUMBERS}}}")))
    beside = load_verifier(str(write(tmp_path / "beside", f"{{{NUMBERS}}}", hf_quant_config="{}")))
    assert plain.view is not None
    assert beside.view is not None
    assert plain.view.quantization is None
    assert beside.view.quantization == "hf_quant_config.json"
