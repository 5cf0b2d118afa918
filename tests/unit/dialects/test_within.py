"""Drafters inside something bigger: in a sub-folder, or under a prefix; only their own byte ranges are read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from checkpoints import read_back, write_checkpoint_folder, write_sharded_folder
from mutations import PAIRS, VERIFIER

from spectool import api
from spectool.checkpoint.folder import open_checkpoint
from spectool.errors import RefusedError, SourceError

NAMED = {"verifier": "spectool/tiny-verifier"}
WHOLE = {**NAMED, "tensors_under": "draft.", "config_under": "draft_config"}
Tensors = dict[str, tuple[str, tuple[int, ...], bytes]]


def parts(example: str = "dflash-zlab") -> tuple[dict[str, object], Tensors, Tensors]:
    """A verifier's config with a drafter's in it, the drafter's tensors under a prefix, and the verifier's own."""
    own = json.loads((PAIRS / example / "config.json").read_text())
    config = json.loads((VERIFIER / "config.json").read_text()) | {"draft_config": own}
    inside = {f"draft.{name}": item for name, item in read_back(PAIRS / example / "model.safetensors").items()}
    return config, inside, dict(read_back(VERIFIER / "model.safetensors"))


def both_in_one(root: Path) -> Path:
    config, inside, others = parts()
    return write_checkpoint_folder(root, config, {**others, **inside})


def outputs(source: Path | str, out: Path, settings: dict[str, str]) -> list[bytes]:
    api.convert(api.plan_conversion(str(source), verifier=str(VERIFIER), settings=settings), out)
    return [(out / name).read_bytes() for name in ("config.json", "model.safetensors")]


def test_a_drafter_under_a_prefix_converts_as_if_it_stood_alone(tmp_path: Path) -> None:
    wanted = outputs(PAIRS / "dflash-zlab", tmp_path / "a", NAMED)
    assert outputs(both_in_one(tmp_path / "source"), tmp_path / "b", WHOLE) == wanted


def test_a_module_s_name_is_a_prefix_too(tmp_path: Path) -> None:
    source = both_in_one(tmp_path / "source")
    found = api.inspect(str(source), settings={**WHOLE, "tensors_under": "draft"})
    assert "fc.weight" in found.view.tensors
    assert found.view.tensors.keys() == api.inspect(str(source), settings=WHOLE).view.tensors.keys()


def test_the_verifiers_tensors_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read of the weights while converting lies in a range of the drafter's; shards without one stay closed."""
    config, inside, others = parts()
    names = sorted(inside)
    shards = {
        "a.safetensors": {**others, **{name: inside[name] for name in names[::2]}},
        "b.safetensors": {name: inside[name] for name in names[1::2]},
        "c.safetensors": {"rest.weight": ("BF16", (512, 512), b"\1" * 2**19)},
    }
    source = write_sharded_folder(tmp_path / "source", config, shards)
    found = open_checkpoint(source)
    ranges = [
        (os.path.realpath(item.file), item.start, item.start + item.nbytes)
        for name, item in found.tensors.items()
        if name.startswith("draft.")
    ]
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=WHOLE)
    reads: list[tuple[str, int, int]] = []

    def note(fd: int, start: int, count: int) -> None:
        path = os.path.realpath(f"/proc/self/fd/{fd}")
        if Path(path).parent == source:
            reads.append((path, start, start + count))

    preadv, copy = os.preadv, os.copy_file_range

    def read(fd: int, buffers: Sequence[memoryview], start: int) -> int:
        note(fd, start, sum(map(len, buffers)))
        return preadv(fd, buffers, start)

    def copied(fd: int, to: int, count: int, start: int, position: int) -> int:
        note(fd, start, count)
        return copy(fd, to, count, start, position)

    monkeypatch.setattr(os, "preadv", read)
    monkeypatch.setattr(os, "copy_file_range", copied)
    api.convert(plan, tmp_path / "out")
    assert {path.rpartition("/")[2] for path, _, _ in reads} == {"a.safetensors", "b.safetensors"}
    outside = [
        one
        for one in reads
        if not any(path == one[0] and start <= one[1] and one[2] <= end for path, start, end in ranges)
    ]
    assert outside == []
    assert sum(end - start for _, start, end in reads) == sum(end - start for _, start, end in ranges)


def test_where_it_seems_to_lie_is_said(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no drafter layout spectool knows") as error:
        api.inspect(str(both_in_one(tmp_path / "source")))
    assert "Tensors under draft. look like" in (error.value.hint or "")
    assert "--set tensors_under=draft." in (error.value.hint or "")
    assert error.value.code == "CFG001"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tensors_under": "drafter."}, "no tensor's name begins with 'drafter.'"),
        ({"config_under": "model_type"}, "no object under model_type"),
        ({"config_under": "missing"}, "no object under missing"),
    ],
)
def test_what_is_not_there(change: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=message) as error:
        api.inspect(str(both_in_one(tmp_path / "source")), settings={**WHOLE, **change})
    if "tensors_under" in change:
        assert error.value.hint == "Drafters seem to lie under 'draft.'."


def test_a_drafter_in_a_sub_folder_is_named_with_it(tmp_path: Path) -> None:
    """As MiMo's repositories have it: the verifier above, the drafter in `dflash`."""
    config, _, others = parts()
    root = write_checkpoint_folder(tmp_path / "repository", config, others)
    drafter = read_back(PAIRS / "dflash-zlab" / "model.safetensors")
    inside = json.loads((PAIRS / "dflash-zlab" / "config.json").read_text())
    write_checkpoint_folder(root / "dflash", inside, drafter)
    with pytest.raises(RefusedError) as error:
        api.inspect(str(root))
    assert f"{root}/dflash" in (error.value.hint or "")
    assert outputs(root / "dflash", tmp_path / "a", NAMED) == outputs(PAIRS / "dflash-zlab", tmp_path / "b", NAMED)
