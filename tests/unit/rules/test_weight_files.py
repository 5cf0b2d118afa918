"""Which weight files vLLM loads of a folder, and what is said where they are not the ones that were read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from checkpoints import write_safetensors
from mutations import PAIRS, VERIFIER, folder, nothing

from spectool import api
from spectool.errors import SourceError

INDEX = "model.safetensors.index.json"
Edit = Callable[[Path], object]


def stray(name: str) -> Edit:
    return lambda root: write_safetensors(root / name, {"stray.weight": ("BF16", (2,), bytes(4))})


def index(**files: str) -> Edit:
    mapped = {name.replace("__", "."): file.replace("__", ".") for name, file in files.items()}
    return lambda root: (root / INDEX).write_text(json.dumps({"weight_map": mapped}), encoding="utf-8")


OWN = index(norm__weight="model.safetensors")


def both(*edits: Edit) -> Edit:
    return lambda root: [edit(root) for edit in edits]


def second_norm(name: str) -> Edit:
    return lambda root: write_safetensors(root / name, {"norm.weight": ("BF16", (128,), bytes(256))})


CASES: list[tuple[str, Edit, list[str], list[str]]] = [
    ("another file, no index", stray("aa.safetensors"), ["TEN005"], []),
    ("another file, an index of the one", both(stray("aa.safetensors"), OWN), [], []),
    ("the same tensor in a later file", second_norm("zz.safetensors"), ["TEN005"], []),
    ("the same tensor in an earlier file, which the other overwrites", second_norm("aa.safetensors"), [], []),
    ("a file that cannot be read", lambda root: (root / "aa.safetensors").write_bytes(b"x"), ["TEN005"], []),
    ("an index of a file that is gone", index(norm__weight="gone.safetensors"), ["TEN005"], []),
    ("an index of the one", OWN, [], []),
    ("an index of another file", both(stray("aa.safetensors"), index(norm__weight="aa.safetensors")), [], ["TEN005"]),
    ("an index that cannot be read", lambda root: (root / INDEX).write_text("{"), ["TEN005"], []),
    ("an index that leads out", index(norm__weight="../gone.safetensors"), ["TEN005"], []),
    ("pickles beside", lambda root: (root / "pytorch_model.bin").write_bytes(b"x"), [], []),
]


@pytest.mark.parametrize(("name", "edit", "codes", "unknown"), CASES, ids=[case[0] for case in CASES])
def test_what_vllm_loads_besides(name: str, edit: Edit, codes: list[str], unknown: list[str], tmp_path: Path) -> None:
    drafter = folder(PAIRS / "dflash-zlab", tmp_path / "d", nothing)
    edit(drafter)
    report = api.validate(str(drafter), verifier=str(VERIFIER))
    assert [item.code for item in report.findings] == codes
    assert [item.code for item in report.unknowns] == unknown


def test_the_verifiers_files_are_looked_at_too(tmp_path: Path) -> None:
    verifier = folder(VERIFIER, tmp_path / "v", nothing)
    stray("aa.safetensors")(verifier)
    (found,) = api.validate(str(PAIRS / "dflash-zlab"), verifier=str(verifier)).findings
    assert found.code == "VER009"
    assert "aa.safetensors" in found.message


@pytest.mark.parametrize("of", ["drafter", "verifier"])
def test_a_link_to_weights_that_are_gone_is_no_folder_without_weights(of: str, tmp_path: Path) -> None:
    drafter, verifier = (
        folder(PAIRS / "dflash-zlab", tmp_path / "d", nothing),
        folder(VERIFIER, tmp_path / "v", nothing),
    )
    weights = (drafter if of == "drafter" else verifier) / "model.safetensors"
    weights.unlink()
    weights.symlink_to("gone")
    with pytest.raises(SourceError, match=r"model\.safetensors"):
        api.validate(str(drafter), verifier=str(verifier))


def test_a_conversion_reads_its_own_files_whatever_lies_beside(tmp_path: Path) -> None:
    drafter = folder(PAIRS / "dflash-zlab", tmp_path / "d", nothing)
    stray("aa.safetensors")(drafter)
    plan = api.plan_conversion(str(drafter), verifier=str(VERIFIER), settings={"verifier": "spectool/tiny-verifier"})
    assert "stray.weight" not in {tensor.source for tensor in plan.output.tensors}
