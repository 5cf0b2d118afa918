"""`convert --verify`, `--replay` and `--card`: what is proved, what is found, and what is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, spectool
from mutations import PAIRS, VERIFIER, folder, nothing, put

from spectool.formats.provenance import Provenance
from spectool.record.seal import sealed, spelled

GIVEN = ("--verifier", str(VERIFIER))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", nothing)
    (source / "LICENSE").write_text("Apache License 2.0\n")
    (source / "NOTICE.txt").write_text("made by somebody\n")
    (source / "README.md").write_text("---\ntags:\n- x\nlicense: apache-2.0\n---\n# A drafter\nlicense: not-this-one\n")
    (source / "license.py").write_text("print()")
    (source / "dflash.py").write_text("print()")
    named = ("--set", "verifier=spectool/tiny-verifier")
    assert spectool("convert", str(source), str(tmp_path / "out"), *GIVEN, *named).code == 0
    return tmp_path / "out"


def verify(folder: Path) -> Outcome:
    return spectool("convert", "--verify", str(folder))


def reseal(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit a record as somebody would who knows how it is sealed."""
    document = json.loads((folder / "provenance.json").read_text())
    change(document)
    (folder / "provenance.json").write_bytes(spelled(sealed(Provenance.model_validate(document))))


def test_an_output_is_proved(out: Path) -> None:
    found = verify(out)
    assert found.code == 0
    assert "5 files" not in found.out
    assert "4 files" in found.out  # config, weights, licence, notice
    assert "made of source with dflash-zlab" in found.out
    assert "not signed" in found.out


def test_licence_and_notice_go_along_and_code_does_not(out: Path) -> None:
    names = sorted(path.name for path in out.iterdir())
    assert names == ["LICENSE", "NOTICE.txt", "config.json", "model.safetensors", "provenance.json"]
    assert (out / "LICENSE").read_text() == "Apache License 2.0\n"
    assert json.loads((out / "provenance.json").read_text())["licence"] == "apache-2.0"


def added(root: Path) -> None:
    (root / "modeling.py").write_text("import os\n")


def added_folder(root: Path) -> None:
    (root / "nested").mkdir()


def hidden(root: Path) -> None:
    (root / ".env").write_text("x")


def removed(root: Path) -> None:
    (root / "NOTICE.txt").unlink()


def dangling(root: Path) -> None:
    (root / "LICENSE").unlink()
    (root / "LICENSE").symlink_to("nowhere")


def as_folder(root: Path) -> None:
    (root / "LICENSE").unlink()
    (root / "LICENSE").mkdir()


def longer(root: Path) -> None:
    with (root / "model.safetensors").open("ab") as stream:
        stream.write(b"\0")


def cut(root: Path) -> None:
    data = (root / "model.safetensors").read_bytes()
    (root / "model.safetensors").write_bytes(data[: len(data) // 2])


def spaced(root: Path) -> None:
    document = json.loads((root / "provenance.json").read_text())
    (root / "provenance.json").write_text(json.dumps(document, indent=1))


def garbled(root: Path) -> None:
    (root / "provenance.json").write_text("{")


def config(root: Path) -> None:
    text = (root / "config.json").read_text()
    (root / "config.json").write_text(text.replace('"mask_token_id": 511', '"mask_token_id": 510'))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (added, "added modeling.py"),
        (added_folder, "added nested"),
        (hidden, "added .env"),
        (removed, "removed NOTICE.txt"),
        (dangling, "removed LICENSE"),
        (as_folder, "changed LICENSE: it is no regular file"),
        (longer, "changed model.safetensors: it has 692"),
        (cut, "changed model.safetensors: it has 346"),
        (spaced, "changed provenance.json: it is not spelled as it was written"),
        (garbled, "changed provenance.json"),
        (config, "changed config.json: its bytes"),
    ],
)
def test_what_was_done_to_a_folder_is_found(change: Callable[[Path], None], said: str, out: Path) -> None:
    change(out)
    found = verify(out)
    assert found.code == 1
    assert said in found.out
    assert "is not what its record says" in found.out


def test_a_link_to_the_same_bytes_is_the_same_file(out: Path, tmp_path: Path) -> None:
    """The Hub's cache stores every file as a link."""
    for name in ("model.safetensors", "config.json"):
        (out / name).rename(tmp_path / name)
        (out / name).symlink_to(tmp_path / name)
    (out / ".gitattributes").write_text("* filter=lfs\n")
    found = verify(out)
    assert found.code == 0
    assert ".gitattributes is the Hub's own" in found.out


def test_shards_and_their_index_are_proved(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert spectool("convert", str(PAIRS / "dflash-zlab"), str(out), *GIVEN, "--max-shard-size", "300kB").code == 0
    assert verify(out).code == 0
    first, second = sorted(out.glob("model-*.safetensors"))[:2]
    first_bytes, second_bytes = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_bytes)
    second.write_bytes(first_bytes)
    assert verify(out).code == 1


def no_origin(document: dict[str, Any]) -> None:
    document["tensors"][0]["origin"] = "zeros"


def dropped_too(document: dict[str, Any]) -> None:
    document["dropped"]["fc.weight"] = {"why": "x"}


def doubled(document: dict[str, Any]) -> None:
    document["files"].append(document["files"][0])


def without_config(document: dict[str, Any]) -> None:
    document["files"] = [item for item in document["files"] if item["name"] != "config.json"]


def outside(document: dict[str, Any]) -> None:
    document["files"].append({"name": "../source/config.json", "nbytes": 1, "sha256": "0" * 64})


def renamed_tensor(document: dict[str, Any]) -> None:
    document["tensors"][0]["name"] = "fc.bias"


@pytest.mark.parametrize("change", [no_origin, dropped_too, doubled, without_config, outside, renamed_tensor])
def test_a_record_at_odds_with_itself_is_found_though_sealed(
    change: Callable[[dict[str, Any]], None], out: Path
) -> None:
    reseal(out, change)
    assert verify(out).code == 1


def test_verify_needs_a_record_and_nothing_else(out: Path, tmp_path: Path) -> None:
    assert spectool("convert", "--verify", str(tmp_path / "no")).code == 2
    assert spectool("convert", "--verify", str(PAIRS / "dflash-zlab")).code == 2
    assert spectool("convert", str(out), "--verify", str(out)).code == 2


def test_verify_as_json(out: Path) -> None:
    (out / "more").write_text("")
    found = spectool("convert", "--verify", str(out), "--format", "json")
    document = json.loads(found.out)
    assert found.code == 1
    assert document["problems"] == [{"kind": "added", "name": "more", "detail": "the record has no such file"}]
    assert document["record"]["dialect"]["name"] == "dflash-zlab"


# --- replay


def replay(record: Path, *arguments: str) -> Outcome:
    return spectool("convert", *arguments, "--replay", str(record))


def test_a_replay_gives_the_same_bytes_whatever_the_folders_are_called(out: Path, tmp_path: Path) -> None:
    source = shutil.copytree(tmp_path / "source", tmp_path / "elsewhere")
    verifier = shutil.copytree(VERIFIER, tmp_path / "target")
    found = replay(out / "provenance.json", str(source), str(tmp_path / "again"), "--verifier", str(verifier))
    assert found.code == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()
    }


@pytest.mark.parametrize("to", ["zlab", "vllm"])
def test_a_replay_knows_format_shards_answers_and_card(to: str, tmp_path: Path) -> None:
    first, source = tmp_path / "first", str(PAIRS / "dflash-zlab")
    more = ("--to", to, "--max-shard-size", "300kB", "--card", "org/drafter", "--set", "block_size=6")
    assert spectool("convert", source, str(first), *GIVEN, *more).code == 0
    found = replay(first, source, str(tmp_path / "again"), *GIVEN)
    assert found.code == 0
    assert (tmp_path / "again" / "provenance.json").read_bytes() == (first / "provenance.json").read_bytes()
    assert (tmp_path / "again" / "README.md").read_bytes() == (first / "README.md").read_bytes()


def refused(outcome: Outcome, tmp_path: Path, said: str, code: int = 1) -> None:
    assert outcome.code == code
    assert said in outcome.err
    assert not (tmp_path / "again").exists()


def test_what_was_made_up_cannot_be_repeated(out: Path, tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["assumptions"] = [{"field": "x", "value": "y", "why": "z"}]

    again = (str(tmp_path / "source"), str(tmp_path / "again"), *GIVEN)
    reseal(out, change)
    assert verify(out).code == 0  # consistent, but made up
    refused(replay(out, *again), tmp_path, "differs from the record: assumptions")


def test_a_swapped_tensor_with_a_matching_record_is_found(out: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    evil = folder(source, tmp_path / "evil", lambda config, found: found.update(norm=found.pop("norm.weight")))
    shutil.rmtree(evil)

    def change(config: dict[str, Any], found: dict[str, Any]) -> None:
        dtype, shape, data = found["norm.weight"]
        found["norm.weight"] = (dtype, shape, bytes(len(data)))

    evil = folder(source, tmp_path / "evil", change)
    for name in ("LICENSE", "NOTICE.txt", "README.md"):
        shutil.copy(source / name, evil)
    named = ("--set", "verifier=spectool/tiny-verifier")
    assert spectool("convert", str(evil), str(tmp_path / "forged"), *GIVEN, *named).code == 0
    reseal(tmp_path / "forged", lambda document: document["source"].update(name="source"))
    assert verify(tmp_path / "forged").code == 0
    again = (str(source), str(tmp_path / "again"), *GIVEN)
    refused(replay(tmp_path / "forged", *again), tmp_path, "tensors.norm.weight.sha256")


def test_a_replay_wants_the_recorded_source_and_verifier(out: Path, tmp_path: Path) -> None:
    source, new = str(tmp_path / "source"), str(tmp_path / "again")
    other = folder(tmp_path / "source", tmp_path / "other", put("rms_norm_eps", 1e-5))
    refused(replay(out, str(other), new, *GIVEN), tmp_path, "this source is not the recorded one")
    refused(replay(out, source, new), tmp_path, "the recorded conversion read the verifier", 2)
    wrong = folder(VERIFIER, tmp_path / "wrong", put("max_position_embeddings", 4096))
    refused(replay(out, source, new, "--verifier", str(wrong)), tmp_path, "this verifier is not the recorded one")
    refused(replay(out, new), tmp_path, "names no commit of the Hub", 2)
    refused(replay(out, source, new, *GIVEN, "--to", "zlab"), tmp_path, "takes its answers from the record", 2)


def test_an_edited_record_is_not_repeated(out: Path, tmp_path: Path) -> None:
    text = (out / "provenance.json").read_text()
    (out / "provenance.json").write_text(text.replace('"evidence": "engine-equal"', '"evidence": "inferred"'))
    refused(replay(out, str(tmp_path / "source"), str(tmp_path / "again"), *GIVEN), tmp_path, "changed since")


def test_another_version_of_spectool_may_repeat_it(out: Path, tmp_path: Path) -> None:
    reseal(out, lambda document: document["tool"].update(version="0.0.9"))
    assert "written by spectool 0.0.9" in verify(out).out
    assert replay(out, str(tmp_path / "source"), str(tmp_path / "again"), *GIVEN).code == 0


def test_another_dialect_file_may_not(out: Path, tmp_path: Path) -> None:
    reseal(out, lambda document: document["dialect"].update(sha256="0" * 64))
    assert "the dialect file dflash-zlab of this spectool is another one" in verify(out).out
    refused(replay(out, str(tmp_path / "source"), str(tmp_path / "again"), *GIVEN), tmp_path, "is not the recorded one")
