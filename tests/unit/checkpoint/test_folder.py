from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint_folder, write_safetensors, write_sharded_folder

from spectool.checkpoint.folder import MAX_JSON_BYTES, open_checkpoint, read_json
from spectool.errors import SourceError

A = {"a": ("U8", (2,), b"aa")}
B = {"b": ("U8", (3,), b"bbb")}
C = {"c": ("U8", (1,), b"c")}
INDEX = "model.safetensors.index.json"


def sharded(root: Path) -> Path:
    return write_sharded_folder(root, {}, {"x-1.safetensors": A, "x-2.safetensors": B})


def reindex(root: Path, weight_map: Any) -> None:
    (root / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def refused(root: Path, message: str, **options: Any) -> SourceError:
    with pytest.raises(SourceError, match=message) as error:
        open_checkpoint(root, **options)
    return error.value


def test_single_file(tmp_path: Path) -> None:
    root = write_checkpoint_folder(tmp_path / "m", {"k": [1, {"é": None}]}, {**A, **B})
    (root / "tokenizer.json").write_text("{}")
    (root / "assets").mkdir()
    (root / ".gitattributes").write_text("")
    found = open_checkpoint(root)
    assert found.root == root
    assert found.config == {"k": [1, {"é": None}]}
    assert found.config_text == (root / "config.json").read_text(encoding="utf-8")
    assert found.files == ("model.safetensors",)
    assert found.side_files == (".gitattributes", "tokenizer.json")
    assert found.total_bytes == 5
    assert (found.read("a"), found.read("b")) == (b"aa", b"bbb")


def test_sharded(tmp_path: Path) -> None:
    found = open_checkpoint(sharded(tmp_path / "m"))
    assert found.files == ("x-1.safetensors", "x-2.safetensors")
    assert found.side_files == ()
    assert found.total_bytes == 5
    assert found.read("b") == b"bbb"
    assert found.tensors["b"].file == tmp_path / "m" / "x-2.safetensors"


def test_one_file_of_another_name(tmp_path: Path) -> None:
    root = write_checkpoint_folder(tmp_path / "m", {}, A)
    (root / "model.safetensors").rename(root / "drafter.safetensors")
    assert open_checkpoint(root).files == ("drafter.safetensors",)
    write_safetensors(root / "second.safetensors", B)
    refused(root, "2 safetensors files")


def test_single_file_counts_before_an_index_as_in_transformers(tmp_path: Path) -> None:
    root = sharded(tmp_path / "m")
    write_safetensors(root / "model.safetensors", C)
    found = open_checkpoint(root)
    assert found.files == ("model.safetensors",)
    assert list(found.tensors) == ["c"]
    assert found.side_files == (INDEX, "x-1.safetensors", "x-2.safetensors")


@pytest.mark.parametrize(
    "name",
    [
        "../out.safetensors",
        "sub/../../out.safetensors",
        "",
        ".",
        "..",
        "./x-1.safetensors",
        "sub//x.safetensors",
        "x\0.safetensors",
        "sub\\x.safetensors",
    ],
)
def test_index_cannot_name_what_is_no_plain_path_inside(name: str, tmp_path: Path) -> None:
    root = sharded(tmp_path / "m")
    write_safetensors(tmp_path / "out.safetensors", A)
    reindex(root, {"a": name, "b": "x-2.safetensors"})
    error = refused(root, "no plain name inside the folder")
    assert "'a'" in error.message


def test_index_cannot_name_an_absolute_path(tmp_path: Path) -> None:
    root = sharded(tmp_path / "m")
    reindex(root, {"a": str(root / "x-1.safetensors"), "b": "x-2.safetensors"})
    refused(root, "no plain name")


def test_a_subfolder_is_inside_and_a_linked_one_is_not(tmp_path: Path) -> None:
    root = sharded(tmp_path / "m")
    (root / "sub").mkdir()
    (root / "x-1.safetensors").rename(root / "sub" / "x-1.safetensors")
    reindex(root, {"a": "sub/x-1.safetensors", "b": "x-2.safetensors"})
    assert open_checkpoint(root).files == ("sub/x-1.safetensors", "x-2.safetensors")
    (root / "sub").rename(tmp_path / "elsewhere")
    (root / "sub").symlink_to(tmp_path / "elsewhere")
    refused(root, "lies outside the folder")


def test_hub_cache_folders_of_links_are_read(tmp_path: Path) -> None:
    blobs = sharded(tmp_path / "blobs")
    root = tmp_path / "snapshots" / "abc"
    root.mkdir(parents=True)
    for file in blobs.iterdir():
        (root / file.name).symlink_to(os.path.relpath(file, root))
    assert open_checkpoint(root).read("a") == b"aa"


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": "x-2.safetensors", "b": "x-2.safetensors"}, "puts tensor 'a' in x-2.safetensors; no file has it"),
        ({"a": "x-2.safetensors", "b": "x-1.safetensors"}, "puts tensor 'a' in x-2.safetensors; it is in x-1.safe"),
        ({"a": "x-1.safetensors", "b": "x-2.safetensors", "c": "x-2.safetensors"}, "'c' in x-2.safetensors; no file"),
        ({"a": "x-1.safetensors", "b": "x-3.safetensors"}, "x-3.safetensors: named in .*, and is missing"),
        ({"a": "x-1.safetensors", "b": "folder"}, "and is no regular file"),
        ({"a": "x-1.safetensors", "b": 2}, "tensor 'b': the file name must be a text"),
        ({"a": "x-1.safetensors", "b": None}, "must be a text"),
        ({}, "needs a weight_map"),
        (None, "needs a weight_map"),
        (["x-1.safetensors"], "needs a weight_map"),
    ],
)
def test_an_index_that_disagrees_with_the_files(weight_map: Any, message: str, tmp_path: Path) -> None:
    root = sharded(tmp_path / "m")
    (root / "folder").mkdir()
    reindex(root, weight_map)
    refused(root, message)


def test_a_tensor_the_index_leaves_out(tmp_path: Path) -> None:
    root = write_sharded_folder(tmp_path / "m", {}, {"x-1.safetensors": {**A, **B}, "x-2.safetensors": {}})
    reindex(root, {"a": "x-1.safetensors"})
    refused(root, r"leaves out 1 tensor\(s\) that the files hold, among them 'b' in x-1.safetensors")


def test_a_tensor_in_two_files(tmp_path: Path) -> None:
    root = write_sharded_folder(tmp_path / "m", {}, {"x-1.safetensors": {**A, **C}, "x-2.safetensors": {**A, **B}})
    refused(root, "'a' is in two files: x-1.safetensors and x-2.safetensors")


def test_index_must_be_an_object(tmp_path: Path) -> None:
    root = sharded(tmp_path / "m")
    (root / INDEX).write_text("[]")
    refused(root, "needs a weight_map")


def test_a_damaged_weight_file_is_named(tmp_path: Path) -> None:
    root = sharded(tmp_path / "m")
    with (root / "x-2.safetensors").open("ab") as stream:
        stream.write(b"!")
    refused(root, "x-2.safetensors: the header describes 3 bytes")


def test_folders_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(tmp_path / "absent", "absent: no such folder$")
    root = write_checkpoint_folder(tmp_path / "m", {}, A)
    error = refused(root / "config.json", "is a file, not a folder")
    assert error.hint is not None
    assert str(root) in error.hint
    monkeypatch.chdir(tmp_path)
    for name in ("z-lab/Qwen3-8B-DFlash-b16", "z-lab/Qwen3-8B-DFlash-b16@main"):
        error = refused(Path(name), "a repository of the Hub cannot be used here")
        assert error.hint is not None
        assert "hf download z-lab/Qwen3-8B-DFlash-b16 --local-dir Qwen3-8B-DFlash-b16" in error.hint
    refused(Path("../m2"), "no such folder$")
    (tmp_path / "z-lab").mkdir()
    write_checkpoint_folder(tmp_path / "z-lab" / "Qwen3-8B-DFlash-b16", {}, A)
    assert open_checkpoint(Path("z-lab/Qwen3-8B-DFlash-b16")).files == ("model.safetensors",)


def test_config_is_required_and_an_object(tmp_path: Path) -> None:
    root = write_checkpoint_folder(tmp_path / "m", {}, A)
    (root / "config.json").write_text("[1]")
    refused(root, "must be a JSON object, found list")
    (root / "config.json").unlink()
    refused(root, "config.json: no such file")


def test_no_weights(tmp_path: Path) -> None:
    root = write_checkpoint_folder(tmp_path / "m", {}, A)
    (root / "model.safetensors").unlink()
    refused(root, "no weights")
    found = open_checkpoint(root, need_weights=False)
    assert (found.tensors, found.files, found.total_bytes) == ({}, (), 0)
    (root / "pytorch_model.bin").write_bytes(b"x")
    error = refused(root, r"pytorch_model.bin: not in torch's zip format")
    assert error.hint is not None
    assert "weights_only=True" in error.hint
    assert open_checkpoint(root, need_weights=False).side_files == ("pytorch_model.bin",)


def test_an_index_without_its_files_is_enough_where_no_weights_are_needed(tmp_path: Path) -> None:
    root = sharded(tmp_path / "m")
    (root / "x-1.safetensors").unlink()
    refused(root, "x-1.safetensors: named in .* and is missing", need_weights=False)  # half a download
    (root / "x-2.safetensors").unlink()
    found = open_checkpoint(root, need_weights=False)
    assert (found.tensors, found.files, found.side_files) == ({}, (), ())
    refused(root, "is missing")


def test_read_is_bounded_and_notices_a_cut_file(tmp_path: Path) -> None:
    found = open_checkpoint(write_checkpoint_folder(tmp_path / "m", {}, B))
    assert found.read("b", 3) == b"bbb"
    with pytest.raises(SourceError, match="has 3 bytes; at most 2"):
        found.read("b", max_bytes=2)
    with pytest.raises(KeyError):
        found.read("c")
    os.truncate(tmp_path / "m" / "model.safetensors", found.tensors["b"].start + 1)
    with pytest.raises(SourceError, match="1 of 3 bytes left"):
        found.read("b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "b": }', "line 2, column 7"),
        ("", "line 1, column 1"),
        ('{"a": 1, "a": 1}', "the key 'a' occurs twice"),
        ('[{"x": {"a": 1, "b": 2, "a": 3}}]', "the key 'a' occurs twice"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1e400}', "1e400 is out of range"),
        ('{"a": "\\udc00"}', "surrogate"),
        ('{"\\ud83d": 1}', "surrogate"),
        ("[" * 101 + "]" * 101, "more than 100 levels"),
        ('{"a":' * 101 + "1" + "}" * 101, "more than 100 levels"),
        ("[" * 200_000, "more than 100 levels"),
        ("1" * 5000, "5000 digits"),
        ("\ufeff{}", "line 1, column 1"),
    ],
)
def test_json_that_two_readers_could_read_differently(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match=message) as error:
        read_json(path)
    assert error.value.message.startswith(f"{path}: ")


def test_json_that_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    text = '{"a": [1e3, -0, 1.5, "\\ud83d\\ude00", {"a": {"a": null}}], "z": 123456789012345678901234567890}\n'
    path.write_text(text, encoding="utf-8")
    value = {"a": [1000.0, 0, 1.5, "\U0001f600", {"a": {"a": None}}], "z": 123456789012345678901234567890}
    assert read_json(path) == (value, text)
    assert list(read_json(path)[0]) == ["a", "z"]
    path.write_text("[" * 100 + "]" * 100)
    read_json(path)


def test_json_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(SourceError, match="not UTF-8 at byte 7"):
        read_json(path)
    path.write_bytes(b"1" + b" " * MAX_JSON_BYTES)
    with pytest.raises(SourceError, match="larger than"):
        read_json(path)
    with pytest.raises(SourceError, match="not a regular file"):
        read_json(tmp_path)
    with pytest.raises(SourceError, match="no such file"):
        read_json(tmp_path / "absent.json")
