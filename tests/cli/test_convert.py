"""`spectool convert` and `inspect`: exit codes, what is printed where, and what is on disk afterwards."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from checkpoints import read_back, write_checkpoint_folder
from command_line import spectool
from mutations import NATIVE, PAIRS, VERIFIER, folder, nothing, put

K5 = ("--set", "speculative_tokens=5")


def names_in(root: Path) -> list[str]:
    return sorted(item.name for item in root.iterdir())


def convert(method: str, out: Path, *more: str) -> tuple[int, str, str]:
    outcome = spectool("convert", str(PAIRS / NATIVE[method]), str(out), "--verifier", str(VERIFIER), *more)
    return outcome.code, outcome.out, outcome.err


@pytest.mark.parametrize("method", ["dflash", "dspark"])
def test_convert_keeps_every_byte(method: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed, _ = convert(method, out)
    assert (code, printed.startswith("wrote ")) == (0, True)
    assert names_in(out) == ["config.json", "model.safetensors", "provenance.json"]
    assert read_back(out / "model.safetensors") == read_back(PAIRS / NATIVE[method] / "model.safetensors")


def test_convert_p_eagle_renames_and_reshapes(tmp_path: Path) -> None:
    assert convert("peagle", tmp_path / "out", *K5)[0] == 0
    before, after = (
        read_back(PAIRS / NATIVE["peagle"] / "model.safetensors"),
        read_back(tmp_path / "out" / "model.safetensors"),
    )
    assert {name.replace("midlayer.", "layers.0."): item for name, item in before.items()} == after


def test_a_question_is_exit_2_and_leaves_nothing(tmp_path: Path) -> None:
    code, printed, talk = convert("peagle", tmp_path / "out")
    assert (code, printed) == (2, "")
    assert "--set speculative_tokens=5" in talk
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["dflash_config.mask_token_id", "dflash_config.target_layer_ids"])
def test_a_fault_is_exit_1_and_leaves_nothing(key: str, tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put(key, ...))
    outcome = spectool("convert", str(source), str(tmp_path / "out"), "--verifier", str(VERIFIER))
    assert outcome.code == 1
    assert outcome.err.startswith("error [")
    assert [item.name for item in tmp_path.iterdir()] == ["source"]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert convert("dspark", tmp_path / name)[0] == 0
    for name in ("config.json", "model.safetensors", "provenance.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_record_fits_the_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert("dflash", out, "--set", "verifier=spectool/tiny-verifier")
    record = json.loads((out / "provenance.json").read_text())
    assert record["dialect"]["name"] == "dflash-zlab"
    assert record["verifier"]["name"] == "spectool/tiny-verifier"
    assert record["answers"] == {"verifier": "spectool/tiny-verifier"}
    assert [item["name"] for item in record["files"]] == ["config.json", "model.safetensors"]
    for item in record["files"]:
        assert item["sha256"] == sha256((out / item["name"]).read_bytes()).hexdigest()
        assert item["nbytes"] == (out / item["name"]).stat().st_size
    assert str(tmp_path) not in (out / "provenance.json").read_text()
    assert len(record["tensors"]) == 25


def test_an_existing_folder_is_refused_unless_told(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("x")
    assert convert("dflash", out)[0] == 2
    assert convert("dflash", out, "--force")[0] == 2  # no checkpoint: somebody's files
    assert (out / "precious").read_text() == "x"
    (out / "config.json").write_text("{}")
    assert convert("dflash", out)[0] == 2
    assert convert("dflash", out, "--force")[0] == 0
    assert not (out / "precious").exists()


def test_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    code, printed, _ = convert("dflash", tmp_path / "out", "--dry-run", "--format", "json")
    plan = json.loads(printed)
    assert (code, list(tmp_path.iterdir())) == (0, [])
    assert plan["config"]["aux_hidden_state_layer_ids"] == [1, 3, 5]
    assert len(plan["tensors"]) == 25


def test_dry_run_reads_no_weights(tmp_path: Path) -> None:
    source = tmp_path / "source"
    tensors = read_back(PAIRS / "dflash-zlab" / "model.safetensors")
    config = json.loads((PAIRS / "dflash-zlab" / "config.json").read_text())
    write_checkpoint_folder(source, config, tensors)
    size = (source / "model.safetensors").stat().st_size
    # Holes read as zeros: the plan must be the same without the data.
    with (source / "model.safetensors").open("r+b") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        file.truncate(start)
        file.truncate(size)
    outcome = spectool("convert", str(source), "--verifier", str(VERIFIER), "--dry-run", "--format", "json")
    assert outcome.code == 0


def test_shards(tmp_path: Path) -> None:
    assert convert("dspark", tmp_path / "out", "--max-shard-size", "400kB")[0] == 0
    names = names_in(tmp_path / "out")
    assert names[1:4] == [f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)]
    assert spectool("validate", str(tmp_path / "out"), "--verifier", str(VERIFIER)).code == 0


@pytest.mark.parametrize("size", ["0", "5 apples", "-1GB", ""])
def test_a_bad_shard_size_is_a_usage_error(size: str, tmp_path: Path) -> None:
    assert convert("dflash", tmp_path / "out", f"--max-shard-size={size}")[0] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "no/such/folder", "out", "--verifier", str(VERIFIER)),
        ("convert", str(PAIRS / "dflash-zlab")),
        ("convert", str(PAIRS / "dflash-zlab"), "out"),
        ("convert", str(PAIRS / "dflash-zlab"), "out", "--verifier", str(VERIFIER), "--from", "no-such"),
        ("convert", str(PAIRS / "dflash-zlab"), "out", "--verifier", str(VERIFIER), "--set", "mask=1"),
        ("convert", str(PAIRS / "dflash-zlab"), "out", "--verifier", str(VERIFIER), "--engine", "vllm==9.9.9"),
        ("inspect", "no/such/folder"),
        ("validate", str(PAIRS / "verifier" / "config.json")),
        ("rule", "NOPE"),
    ],
)
def test_what_cannot_be_done_is_exit_2_with_advice(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = spectool(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error")
    assert "Traceback" not in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_hub_id_is_a_name_without_a_network(tmp_path: Path) -> None:
    outcome = spectool("convert", str(PAIRS / "dflash-zlab"), str(tmp_path / "out"), "--verifier", "Qwen/Qwen3-8B@main")
    assert outcome.code == 0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["speculators_config"]["verifier"]["name_or_path"] == "Qwen/Qwen3-8B"
    assert "not checked" in outcome.err


def test_inspect_json_names_where_values_stood() -> None:
    outcome = spectool("inspect", str(PAIRS / "dspark-deepspec"), "--format", "json")
    found = json.loads(outcome.out)
    assert (outcome.code, found["dialect"], found["speculative_tokens"]) == (0, "dspark-deepspec", 7)
    assert found["evidence"]["mask_token_id"] == "mask_token_id"
    assert found["evidence"]["slots"] == "absent"


def unreadable(kind: str, root: Path) -> None:
    weights = root / "model.safetensors"
    match kind:
        case "config is no JSON":
            (root / "config.json").write_text("{,}")
        case "config is a list":
            (root / "config.json").write_text("[]")
        case "config is missing":
            (root / "config.json").unlink()
        case "weights are cut short":
            with weights.open("r+b") as file:
                file.truncate(weights.stat().st_size - 1)
        case "header length is huge":
            weights.write_bytes(b"\xff" * 8 + weights.read_bytes()[8:])
        case "header is no JSON":
            weights.write_bytes((5).to_bytes(8, "little") + b"{{{{{")
        case "weights are missing":
            weights.unlink()
        case "index leaves the folder":
            weights.unlink()
            index = {"weight_map": {"fc.weight": "../../etc/passwd"}}
            (root / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("command", ["convert", "validate", "inspect"])
@pytest.mark.parametrize(
    "kind",
    [
        "config is no JSON",
        "config is a list",
        "config is missing",
        "weights are cut short",
        "header length is huge",
        "header is no JSON",
        "weights are missing",
        "index leaves the folder",
    ],
)
def test_unreadable_input_is_exit_2(kind: str, command: str, tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", nothing)
    unreadable(kind, source)
    more = (str(tmp_path / "out"),) if command == "convert" else ()
    outcome = spectool(command, str(source), *more, "--verifier", str(VERIFIER))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert [item.name for item in tmp_path.iterdir()] == ["source"]


def test_what_the_engine_cannot_run_is_not_written(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put("hidden_act", "gelu"))
    outcome = spectool("convert", str(source), str(tmp_path / "out"), "--verifier", str(VERIFIER))
    assert outcome.code == 1
    assert "silu" in outcome.err
    assert not (tmp_path / "out").exists()


def test_unsorted_aux_layers_are_sorted_with_their_columns(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put("dflash_config.target_layer_ids", [4, 0, 2]))
    outcome = spectool("convert", str(source), str(tmp_path / "out"), "--verifier", str(VERIFIER))
    assert outcome.code == 0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["aux_hidden_state_layer_ids"] == [1, 3, 5]
    _, (rows, columns), before = read_back(source / "model.safetensors")["fc.weight"]
    _, _, after = read_back(tmp_path / "out" / "model.safetensors")["fc.weight"]
    width = columns * 2
    block = width // 3
    for row in range(rows):
        old, new = before[row * width : (row + 1) * width], after[row * width : (row + 1) * width]
        # The file's blocks belong to input ids 5, 1, 3.
        assert new == old[block : 2 * block] + old[2 * block :] + old[:block]
