"""Weights in PyTorch's own format: found by torch without running anything, read like ranges of any other file.

One process with torch makes and opens all of them (`tests/support/pickled.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from checkpoints import read_back
from mutations import PAIRS, VERIFIER

from spectool import api
from spectool.checkpoint.folder import open_checkpoint
from spectool.checkpoint.pickle_names import choose
from spectool.errors import SourceError

SOURCE = PAIRS / "peagle-native"
SCRIPT = Path(__file__).resolve().parents[2] / "support" / "pickled.py"
Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def made(torch_python: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    out = tmp_path_factory.mktemp("pickled")
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    done = subprocess.run(
        [torch_python, SCRIPT, SOURCE, out],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), out


def wanted() -> dict[str, list[Any]]:
    tensors = read_back(SOURCE / "model.safetensors")
    return {
        name: [dtype, list(shape), hashlib.sha256(data).hexdigest()] for name, (dtype, shape, data) in tensors.items()
    }


@pytest.mark.parametrize("case", ["plain", "single", "sharded", "views"])
def test_the_bytes_are_those_of_the_safetensors_file(case: str, made: tuple[Results, Path]) -> None:
    assert made[0][case].get("tensors") == wanted(), made[0][case]


def test_what_trainers_save_beside_is_a_side_file(made: tuple[Results, Path]) -> None:
    assert made[0]["single"]["side_files"] == ["optimizer.pt", "training_state.rank0.pt"]


REFUSED = {
    "two": "2 files could be the weights",
    "sharded_wrongly": "weight_map puts tensor",
    "transposed": "'fc.weight' is not stored row by row",
    "training": "holds a int under 'epoch'",
    "nested": "holds a dict under 'model'",
    "hostile": "nothing in it was run",
    "old": "not in torch's zip format",
    "hostile_old": "not in torch's zip format",
    "cut_off": "not in torch's zip format",
    "compressed": "is compressed",
    "big_endian": "big-endian",
    "other_archive": "none of torch's",
    "short_record": "",
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_is_no_plain_state_dict_is_refused_and_runs_nothing(case: str, made: tuple[Results, Path]) -> None:
    found = made[0][case]
    assert "tensors" not in found
    assert REFUSED[case] in found["error"]
    assert found["exit"] == 2
    assert not found["ran"]


@pytest.mark.parametrize("case", ["plain", "sharded"])
def test_the_conversion_is_that_of_the_safetensors_folder(
    case: str, made: tuple[Results, Path], tmp_path: Path
) -> None:
    settings = {"verifier": "org/verifier", "speculative_tokens": 5}
    api.convert(api.plan_conversion(str(SOURCE), verifier=str(VERIFIER), settings=settings), tmp_path / "out")
    out = made[1] / f"{case}-out"
    for name in ("config.json", "model.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_memory_does_not_grow_with_the_file(made: tuple[Results, Path]) -> None:
    memory = made[0]["memory"]
    assert memory["size"] > 64 * 2**20
    assert memory["grown"] < 16 * 2**20


def test_nemo_kept_the_vocabulary_map_beside_the_weights_once(made: tuple[Results, Path]) -> None:
    found = made[0]["nemo"]
    assert found["before"] == found["after"]
    assert len(found["after"]) == 64
    assert "d2t" in found["neither"]  # refused: nothing says which ids the head's rows are


def test_a_mask_row_beside_the_weights_goes_into_a_shipped_embedding(made: tuple[Results, Path]) -> None:
    found = made[0]["mimo"]
    assert found["row"] == found["object"] == [[511], True]
    assert "dflash_config.mask_token_id is 511" in found["other"]
    assert "side_files.mask_embedding.mask_token_id is 510" in found["other"]


def test_without_torch_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    archive = tmp_path / "pytorch_model.bin"

    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("x/data.pkl", b"")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SourceError, match="needs torch") as error:
        open_checkpoint(tmp_path)
    assert "spectool[torch]" in (error.value.hint or "")


def test_a_verifier_is_described_without_its_pickles(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    assert open_checkpoint(tmp_path, need_weights=False).tensors == {}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["pytorch_model.bin", "pytorch_model.bin.index.json", "x.pt"], "pytorch_model.bin"),
        (["pytorch_model.bin.index.json", "pytorch_model-1.bin"], "pytorch_model.bin.index.json"),
        (["drafter.pt", "mask_embedding.pt", "eagle_meta.pt", "rng_state_0.pth", "training_args.bin"], "drafter.pt"),
        (["mask_embedding.pt"], None),
        (["readme.md"], None),
    ],
)
def test_which_file_holds_the_weights(names: list[str], chosen: str | None) -> None:
    assert choose(names) == chosen
