"""`schema check` on files: the fault's own rule, its line and key; and the same codes as `validate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from config_files import DATA, files, named, plan
from faults import CONVERTED_FAULTS, NEAR_MISSES
from mutations import NATIVE, Change

from spectool import api
from spectool.rules.registry import rules
from spectool.schema_check.check import check_files
from spectool.schema_check.codes import _CODES, _KEYS
from spectool.schema_check.record import FileResult


def check(path: Path) -> FileResult:
    (result,) = check_files([path])
    return result


@pytest.mark.parametrize("path", files("bad"), ids=named(files("bad")))
def test_bad_file_is_an_error_of_its_own_rule(path: Path) -> None:
    result = check(path)
    assert {item.code for item in result.findings if item.severity == "error"} == {path.parent.name[:6]}
    for item in result.findings:
        last = item.key.rsplit(".")[-1].split("[")[0]
        line = path.read_text().splitlines()[item.line - 1]
        at_list_entry = item.key.endswith("]")
        present = f'"{last}"' in path.read_text() if path.suffix == ".json" else True
        assert last in line or at_list_entry or not present or path.suffix == ".toml", (item, line)
        assert item.fix


@pytest.mark.parametrize("path", files("odd"), ids=named(files("odd")))
def test_odd_file_is_no_error(path: Path) -> None:
    result = check(path)
    assert {item.code for item in result.findings} == {path.parent.name[:6]}
    assert all(item.severity != "error" for item in result.findings)


@pytest.mark.parametrize("path", files("good"), ids=named(files("good")))
def test_good_file_is_clean(path: Path) -> None:
    assert check(path).status == "clean"


@pytest.mark.parametrize("path", files("others"), ids=named(files("others")))
def test_other_models_are_passed_over(path: Path) -> None:
    result = check(path)
    assert result.status == "passed over"
    assert result.why


LINES = [
    ("ATT001-speculators-0.9.0-dflash", "sliding_window_non_causal", 19),
    ("AUX001-negative-aux-layer", "aux_hidden_state_layer_ids[0]", 9),
    ("CFG003-size-missing", "transformer_layer_config.hidden_size", 41),
    ("MSK004-second-mask-token", "transformer_layer_config.mask_token_id", 74),
    ("SLT002-tokens-beyond-the-block", "speculators_config.proposal_methods[0].speculative_tokens", 27),
    ("SCH002-dialect-drop-without-reason", "tensor[1]", 29),
    ("SCH002-gpus-without-count", "gpus", 4),
]


@pytest.mark.parametrize(("folder", "key", "line"), LINES, ids=[folder for folder, *_ in LINES])
def test_line_and_key(folder: str, key: str, line: int) -> None:
    (path,) = (DATA / "bad" / folder).iterdir()
    assert [(item.key, item.line) for item in check(path).findings] == [(key, line)]


# Rules about weights or the verifier, which `schema check` has not got.
ELSEWHERE = ("TEN", "VER001", "VER003", "MSK003", "LAY001", "LAY002", "LAY003")


def config_of(method: str, change: Change, folder: Path) -> tuple[Path, bool]:
    """Write a converted pair's config with one change; the second value says whether it touches weights."""
    config = json.loads(json.dumps(plan(method).output.config))
    tensors = read_back_of(method)
    names = set(tensors)
    change(config, tensors)
    folder.mkdir(exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(config, indent=2))
    return path, set(tensors) != names


def read_back_of(method: str) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    placed = plan(method).output.tensors
    stored = {item.name: (item.dtype, tuple(item.shape), b"") for item in placed}
    stored.setdefault("mask_hidden", ("BF16", (), b""))
    return stored


@pytest.mark.parametrize(
    ("method", "name", "change", "expected"), CONVERTED_FAULTS, ids=[f"{m}-{n}" for m, n, *_ in CONVERTED_FAULTS]
)
def test_same_code_as_validate(method: str, name: str, change: Change, expected: set[str], tmp_path: Path) -> None:
    path, weights = config_of(method, change, tmp_path)
    if weights:
        pytest.skip("a fault of the weights")
    found = {item.code for item in check(path).findings if item.severity != "note"}
    if name == "no layer config":
        # Without a decoder there is nothing to read; the question about its rope is moot.
        expected = expected - {"CFG005"}
    if name == "qwen3 without norms":
        # The config promises q/k norms then; that the tensors lack them is for `validate` to see.
        expected = set()
    assert found == expected


@pytest.mark.parametrize(
    ("layout", "method", "name", "change"),
    [case for case in NEAR_MISSES if case[0] == "converted"],
    ids=[f"{m}-{n}" for layout, m, n, _ in NEAR_MISSES if layout == "converted"],
)
def test_near_miss_is_no_error(layout: str, method: str, name: str, change: Change, tmp_path: Path) -> None:
    path, _ = config_of(method, change, tmp_path)
    assert [item for item in check(path).findings if item.severity != "note"] == []


@pytest.mark.parametrize("method", NATIVE)
def test_record_beside_the_config_settles_what_it_settles_for_validate(method: str, tmp_path: Path) -> None:
    api.convert(plan(method), tmp_path / "out")
    assert check(tmp_path / "out" / "config.json").status == "clean"
    assert check(tmp_path / "out" / "provenance.json").status == "clean"


def test_answers_are_taken(tmp_path: Path) -> None:
    path = DATA / "bad" / "ATT001-full-layers-made-causal" / "config.json"
    (result,) = check_files([path], settings={"causal": True})
    assert result.status == "clean"


def test_every_code_named_here_is_a_rule() -> None:
    codes = {code for entry in _CODES.values() for code in (entry.values() if isinstance(entry, dict) else [entry])}
    assert codes <= rules().keys()
    assert all(any(code.startswith(key) for code in rules()) for key in _KEYS)


def test_unreadable_files_are_told_apart_from_faults(tmp_path: Path) -> None:
    cases = {
        "config.json": b"{",
        "twice.json": b'{"speculators_model_type": "dflash", "speculators_model_type": "dflash"}',
        "infinite.json": b'{"speculators_model_type": "dflash", "x": Infinity}',
        "latin.json": b'{"a": "\xff"}',
        "broken.toml": b"a = ",
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        result = check(tmp_path / name)
        assert (result.status, name in result.why) == ("unreadable", True)
    assert check(tmp_path / "none.json").status == "unreadable"
    assert check(tmp_path).status == "unreadable"


def test_a_folder_is_told_which_of_its_files_to_name(tmp_path: Path) -> None:
    assert (check(tmp_path).status, check(tmp_path).hint) == ("unreadable", "")
    (tmp_path / "config.json").write_text("{}")
    assert check(tmp_path).hint == f"Name {tmp_path / 'config.json'}."


def test_kind_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[1]")
    assert next(iter(check_files([path], kind="config"))).status == "passed over"
    (tmp_path / "d.json").write_text("[1]")
    (found,) = next(iter(check_files([tmp_path / "d.json"], kind="deployment"))).findings
    assert found.code == "SCH002"
    toml = DATA / "good" / "deployment-toml" / "deployment.toml"
    assert next(iter(check_files([toml], kind="config"))).status == "passed over"
    assert next(iter(check_files([toml], kind="dialect"))).status == "findings"
