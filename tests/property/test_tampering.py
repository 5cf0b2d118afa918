"""Whatever is changed in an output, `convert --verify` finds: any byte of any file, any config value, any entry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import PAIRS, VERIFIER, both, folder, put, without

from spectool import api
from spectool.record.seal import dump_json

MIXED = both(put("layer_types", ["sliding_attention", "full_attention"]), put("sliding_window", 8))
Place = tuple[str | int, ...]
once_made = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A carrier with zeros, two shards, a card and an assumption; small, for every example reads it whole."""
    root = tmp_path_factory.mktemp("tampering")
    small = without(*(f"layers.1.{part}" for part in PARTS))
    one_layer = both(put("num_hidden_layers", 1), put("layer_types", ["full_attention"]), small)
    source = folder(PAIRS / "dflash-zlab", root / "source", one_layer)
    named = {"verifier": "org/verifier", "block_size": 6}
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=named)
    api.convert(plan, root / "out", shard_bytes=300_000, card="org/drafter")
    assert api.verify(root / "out").problems == ()
    return root / "out"


PARTS = [
    *(f"self_attn.{name}.weight" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
    *(f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
    *("input_layernorm.weight", "post_attention_layernorm.weight"),
]
FILES = ["README.md", "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
FILES += ["model.safetensors.index.json", "provenance.json"]


def found_with(path: Path, data: bytes) -> bool:
    """Whether the folder is found wanting with other bytes in one of its files."""
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        return bool(api.verify(path.parent).problems)
    finally:
        path.write_bytes(before)


def test_these_are_all_its_files(out: Path) -> None:
    assert sorted(path.name for path in out.iterdir()) == FILES


@once_made
@given(st.sampled_from(FILES), st.integers(0, 10**9), st.integers(1, 255))
def test_any_byte(out: Path, name: str, offset: int, flip: int) -> None:
    data = bytearray((out / name).read_bytes())
    data[offset % len(data)] ^= flip
    assert found_with(out / name, bytes(data))


@once_made
@given(st.sampled_from(FILES), st.integers(0, 10**9), st.binary(min_size=1, max_size=3))
def test_any_insertion_and_any_end(out: Path, name: str, offset: int, more: bytes) -> None:
    data = (out / name).read_bytes()
    at = offset % (len(data) + 1)
    assert found_with(out / name, data[:at] + more + data[at:])
    if at < len(data):
        assert found_with(out / name, data[:at])


def places(document: Any, place: Place = ()) -> Iterator[Place]:
    """Every value in a JSON document that holds no other."""
    if isinstance(document, dict | list) and document:
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(value, (*place, key))
    else:
        yield place


def other(value: Any, how: int) -> Any:
    """Another value, of the same type where it has one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1 + how % 7
        case str():
            return value[:-1] if value and how % 2 else f"{value}0"
        case _:
            return "x"


def edited(document: Any, place: Place, how: int) -> Any:
    if not place:
        return other(document, how)
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[place[0]] = edited(document[place[0]], place[1:], how)
    return copy


@once_made
@given(st.sampled_from(["config.json", "provenance.json", "model.safetensors.index.json"]), st.data())
def test_any_value_and_any_entry(out: Path, name: str, data: st.DataObject) -> None:
    document = json.loads((out / name).read_text())
    place = data.draw(st.sampled_from(list(places(document))))
    changed = edited(document, place, data.draw(st.integers(0, 13)))
    assert found_with(out / name, dump_json(changed)), place


@once_made
@given(st.data())
def test_any_entry_that_is_left_out(out: Path, data: st.DataObject) -> None:
    document = json.loads((out / "provenance.json").read_text())
    *parents, last = data.draw(st.sampled_from(list(places(document))))
    holder = document
    for key in parents:
        holder = holder[key]
    del holder[last]
    assert found_with(out / "provenance.json", dump_json(document)), (*parents, last)
