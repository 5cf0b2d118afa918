"""What must hold for every config: nothing is lost, nothing crashes, model and published schema say the same.

Configs are generated from the models' own schemas and then damaged. `SPECTOOL_EXAMPLES=10000` looks longer.
"""

from __future__ import annotations

import copy
import json
import os
from functools import cache
from typing import Any

import pytest
from config_files import configs, plan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mutations import NATIVE

from spectool.checkpoint.json_text import parse_json
from spectool.engine.facts import engine_facts
from spectool.formats.schemas import shipped_text
from spectool.formats.speculators import Faulty, ParsedConfig, is_speculators, parse_speculators
from spectool.formats.speculators.examples import EXAMPLES
from spectool.schema_check.positions import json_lines, line_of
from spectool.schema_check.speculators import check_config

FIXTURES = {
    **{name: config for name, config in configs("good", "bad", "odd").items() if is_speculators(config)},
    **{f"converted-{method}": dict(plan(method).output.config) for method in NATIVE},
    **{f"example-{method}": config for method, config in EXAMPLES.items()},
}
many = settings(
    max_examples=int(os.environ.get("SPECTOOL_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.sampled_from([2**31, 2**63, -(10**30), 10**400, 151936, 5.0, 0.25, -0.0, 1e300])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(["qwen3", "gated", "sliding_attention", "7", "a.b", "0"])
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@cache
def schema(method: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(shipped_text(f"speculators-{method}"))
    return document


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(shipped_text(name)))


def matching(part: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit a schema; large numbers only now and then, since readers build a list per layer."""
    if "$ref" in part:
        return matching(root["$defs"][part["$ref"].removeprefix("#/$defs/")], root)
    if "const" in part or "enum" in part:
        return st.sampled_from(part.get("enum", [part.get("const")]))
    if "anyOf" in part:
        return st.one_of([matching(option, root) for option in part["anyOf"]])
    kind = part.get("type")
    if kind == "object":
        return objects(part, root)
    if kind == "array":
        low, items = part.get("minItems", 0), part.get("items", {})
        return st.lists(matching(items, root), min_size=low, max_size=low + 4, unique=part.get("uniqueItems", False))
    if kind == "integer":
        low = part.get("minimum", -5)
        return st.integers(low, min(part.get("maximum", low + 64), low + 64))
    if kind == "number":
        return st.floats(max(part.get("exclusiveMinimum", 0), 1e-9), min(part.get("maximum", 1e6), 1e6))
    by_kind: dict[Any, st.SearchStrategy[Any]] = {"boolean": st.booleans(), "null": st.none()}
    return by_kind.get(kind, st.sampled_from(["default", "yarn", "qwen3", "greedy", "org/name", "./here"]))


@st.composite
def objects(draw: st.DrawFn, part: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Objects with all required keys, and any of the others."""
    required = set(part.get("required", ()))
    properties = part.get("properties", {})
    return {
        name: draw(matching(value, root))
        for name, value in properties.items()
        if name in required or draw(st.integers(0, 3)) == 0
    }


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for name, child in children for found in paths(child, (*path, name)))]


@st.composite
def damaged(draw: st.DrawFn, bases: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """A config with up to three places replaced, removed or added."""
    config = copy.deepcopy(draw(bases))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(paths(config)[1:] or [()]))
        if not path:
            break
        *parents, last = path
        target: Any = config
        for part in parents:
            target = target[part]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                target[last] = draw(JUNK)
            case "remove":
                del target[last]
            case "add" if isinstance(target, dict):
                target[draw(st.text(max_size=4) | st.sampled_from(["model_type", "fc_norm"]))] = draw(JUNK)
            case _:
                target.append(draw(JUNK))
    return config


generated = st.sampled_from(sorted(EXAMPLES)).flatmap(lambda method: matching(schema(method), schema(method)))
written = st.sampled_from(sorted(FIXTURES)).map(lambda name: FIXTURES[name])


@pytest.mark.parametrize("name", FIXTURES)
def test_loaded_and_written_it_is_the_same(name: str) -> None:
    config = FIXTURES[name]
    text = json.dumps(config, indent=2)
    assert parse_json(text, name) == config
    before = copy.deepcopy(config)
    parsed = parse_speculators(config)
    assert config == before
    if isinstance(parsed, ParsedConfig):
        assert parsed.model.model_dump(exclude_unset=True) == config


@many
@given(config=generated)
def test_generated_configs_fit_their_model(config: dict[str, Any]) -> None:
    parsed = parse_speculators(config)
    assert isinstance(parsed, ParsedConfig), parsed
    assert parsed.model.model_dump(exclude_unset=True) == config


@many
@given(config=damaged(generated | written))
def test_model_and_schema_agree(config: dict[str, Any]) -> None:
    if not is_speculators(config):
        assert validator("speculators-config").is_valid(config)
        return
    faults = parse_speculators(config)
    found = [error.json_path for error in validator("speculators-config").iter_errors(config)]
    others = config.get("speculators_model_type") in ("eagle3", "dflash2", "mtp", "xpress")
    assert (isinstance(faults, Faulty) and not others) == bool(found), (faults, found)


@many
@given(config=damaged(generated | written))
def test_nothing_crashes_and_every_finding_has_a_place(config: dict[str, Any]) -> None:
    if not is_speculators(config):
        return
    lines = json_lines(json.dumps(config, indent=1))
    for remark in check_config(config, {}, engine_facts(None)):
        assert remark.code
        assert remark.message
        assert remark.fix
        assert line_of(lines, remark.path) >= 1


documents = st.recursive(
    SCALARS | st.text(alphabet='":,{}[]\\ \n\u20ac', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@many
@given(document=documents, indent=st.sampled_from([None, 0, 2]))
def test_every_key_has_its_line(document: Any, indent: int | None) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    lines = json_lines(text)
    assert set(lines) == set(paths(document))
    rows = text.split("\n")
    for path, line in lines.items():
        if path and isinstance(path[-1], str):
            assert json.dumps(path[-1], ensure_ascii=False) in rows[line - 1]
