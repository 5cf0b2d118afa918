"""Damaged folders: whatever is in a config or a header, `validate` answers with findings or with one of our errors.

`SPECTOOL_EXAMPLES=20000` looks longer. A fault found this way becomes an `@example`.
"""

from __future__ import annotations

import copy
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checkpoints import safetensors_bytes
from config_files import configs, plan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import NATIVE, PAIRS, VERIFIER
from rich.console import Console

from spectool import api
from spectool.checkpoint.entries import DTYPE_BITS
from spectool.errors import SpectoolError
from spectool.formats.speculators import is_speculators
from spectool.report.github import github
from spectool.report.jsonable import report_json
from spectool.report.junit import junit
from spectool.report.sarif import sarif
from spectool.report.text import print_report
from spectool.rules.registry import rules

EXAMPLES = int(os.environ.get("SPECTOOL_EXAMPLES", "200"))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
Header = dict[str, tuple[str, list[int]]]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 600)
    | st.sampled_from([2**31, 2**63, -(10**30), 10**400, 151936, 5.0, 0.25, -0.0, 1e300, 1e-320])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(
        ["qwen3", "llama", "gated", "vanilla", "sliding_attention", "yarn", "llama3", "7", "a.b", "", "true"]
    )
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _native(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((PAIRS / name / "config.json").read_text(encoding="utf-8"))
    return config


BASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"native-{method}": (method, _native(name)) for method, name in NATIVE.items()},
    **{f"converted-{method}": (method, dict(plan(method).output.config)) for method in NATIVE},
    **{
        name: (str(config["speculators_model_type"]), config)
        for name, config in configs("good", "bad", "odd").items()
        if is_speculators(config) and config.get("speculators_model_type") in NATIVE
    },
}


def headers(method: str) -> Header:
    """Names, dtypes and shapes of a method's converted pair."""
    return {item.name: (item.dtype, list(item.shape)) for item in plan(method).output.tensors}


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for name, child in children for found in paths(child, (*path, name)))]


KEYS = st.sampled_from(
    ["model_type", "fc_norm", "is_causal", "rope_scaling", "layer_types", "sliding_window", "head_dim", "dflash_config"]
)


@st.composite
def damaged(draw: st.DrawFn, config: dict[str, Any]) -> dict[str, Any]:
    """The config with one to four places replaced, removed or added."""
    config = copy.deepcopy(config)
    for _ in range(draw(st.integers(1, 4))):
        *parents, last = draw(st.sampled_from(paths(config)[1:] or [("model_type",)]))
        target: Any = config
        for part in parents:
            target = target[part]
        match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
            case "replace":
                target[last] = draw(JUNK)
            case "remove":
                target.pop(last)
            case _ if isinstance(target, dict):
                target[draw(st.text(max_size=4) | KEYS)] = draw(JUNK)
            case _:
                target.append(draw(JUNK))
    return config


@st.composite
def damaged_header(draw: st.DrawFn, header: Header) -> Header:
    """The header with tensors renamed, removed, added, and of other shapes and dtypes; its sizes fit all the same."""
    header = dict(header)
    small = st.lists(st.sampled_from([0, 1, 2, 3, 8, 32, 128, 256, 384, 512]), max_size=4)
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(header) or ["norm.weight"]))
        dtype, shape = header.pop(name, ("BF16", [128]))
        match draw(st.sampled_from(["remove", "rename", "shape", "dtype", "all"])):
            case "rename":
                header[draw(st.text(max_size=8) | st.sampled_from(["d2t", "t2d", "mask_hidden", f"model.{name}"]))] = (
                    dtype,
                    shape,
                )
            case "shape":
                header[name] = (dtype, draw(small))
            case "dtype":
                header[name] = (draw(st.sampled_from(sorted(DTYPE_BITS))), shape)
            case "all":
                header[name] = (draw(st.sampled_from(sorted(DTYPE_BITS))), draw(small))
    return {
        name: (dtype, shape)
        for name, (dtype, shape) in header.items()
        if name != "__metadata__" and math.prod(shape) * DTYPE_BITS[dtype] % 8 == 0 and math.prod(shape) < 2**21
    }


def _header_text(header: Header) -> tuple[bytes, int]:
    document, at = {}, 0
    for name, (dtype, shape) in header.items():
        end = at + math.prod(shape) * DTYPE_BITS[dtype] // 8
        document[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    return json.dumps(document).encode(), at


@contextmanager
def written(config: str, weights: Path | Header | bytes) -> Iterator[Path]:
    """A folder with this config and these weights: a file linked to, a header with zeros behind it, or raw bytes."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "config.json").write_text(config, encoding="utf-8")
        path = root / "model.safetensors"
        if isinstance(weights, Path):
            path.symlink_to(weights)
        elif isinstance(weights, bytes):
            path.write_bytes(weights)
        else:
            text, nbytes = _header_text(weights)
            path.write_bytes(safetensors_bytes(text))
            os.truncate(path, 8 + len(text) + nbytes)
        yield root


def answered(root: Path, verifier: Path | None, *, weights: bool = False) -> None:
    """Validate, and print the report in every format."""
    try:
        report = api.validate(str(root), verifier=str(verifier) if verifier else None, weights=weights)
    except SpectoolError:
        return
    for finding in report.findings:
        assert finding.code in rules()
        assert finding.message
        assert finding.fix
        assert finding.file
    json.dumps(report_json(report))
    json.dumps(sarif(report))
    github(report)
    junit(report, ("error",))
    with Path(os.devnull).open("w", encoding="utf-8") as sink:
        print_report(report, Console(file=sink))


names = st.sampled_from(sorted(BASES))


@many
@given(data=st.data(), name=names, with_verifier=st.booleans())
def test_damaged_configs(data: st.DataObject, name: str, with_verifier: bool) -> None:
    method, base = BASES[name]
    config = data.draw(damaged(base))
    weights = PAIRS / NATIVE[method] / "model.safetensors" if name.startswith("native") else headers(method)
    with written(json.dumps(config), weights) as root:
        answered(root, VERIFIER if with_verifier else None)


@many
@given(data=st.data(), name=names, with_verifier=st.booleans(), zeros=st.booleans())
def test_damaged_headers(data: st.DataObject, name: str, with_verifier: bool, zeros: bool) -> None:
    method, base = BASES[name]
    config = data.draw(damaged(base)) if data.draw(st.booleans()) else base
    with written(json.dumps(config), data.draw(damaged_header(headers(method)))) as root:
        answered(root, VERIFIER if with_verifier else None, weights=zeros)


@many
@given(data=st.data(), method=st.sampled_from(sorted(NATIVE)))
def test_damaged_verifiers(data: st.DataObject, method: str) -> None:
    config = data.draw(damaged(_native("verifier")))
    tensors: Header = {"model.embed_tokens.weight": ("BF16", [512, 128]), "lm_head.weight": ("BF16", [512, 128])}
    tensors = data.draw(damaged_header(tensors)) if data.draw(st.booleans()) else tensors
    with written(json.dumps(config), tensors) as root:
        answered(PAIRS / NATIVE[method], root, weights=data.draw(st.booleans()))


@many
@given(
    name=names,
    at=st.floats(0, 1, exclude_max=True),
    insert=st.text(max_size=3) | st.sampled_from(['"', "{", "}", "[", ",", "\\u0000", "NaN", "1e999", "\U0001f600"]),
    removed=st.integers(0, 40),
)
def test_damaged_texts(name: str, at: float, insert: str, removed: int) -> None:
    method, base = BASES[name]
    text = json.dumps(base, indent=2)
    place = int(at * len(text))
    with written(text[:place] + insert + text[place + removed :], PAIRS / NATIVE[method] / "model.safetensors") as root:
        answered(root, None)


@many
@given(data=st.data(), method=st.sampled_from(sorted(NATIVE)))
def test_damaged_bytes_of_a_header(data: st.DataObject, method: str) -> None:
    text, nbytes = _header_text({"fc.weight": ("BF16", [4]), "norm.weight": ("F32", [2]), "d2t": ("I64", [1])})
    raw = safetensors_bytes(text, bytes(nbytes))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw = raw[:at] + data.draw(st.binary(max_size=4)) + raw[at + data.draw(st.integers(0, 4)) :]
    with written(json.dumps(BASES[f"converted-{method}"][1]), raw) as root:
        answered(root, VERIFIER, weights=data.draw(st.booleans()))


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '"x"', "{}", "{" * 1000, "[" * 100000, "\ufeff{}", "{}{}"])
def test_texts_that_are_no_config(text: str) -> None:
    with written(text, PAIRS / "dflash-zlab" / "model.safetensors") as root:
        answered(root, VERIFIER)


@pytest.mark.parametrize("where", ["rope_parameters.rope_theta", "hidden_size", "rms_norm_eps"])
@pytest.mark.parametrize("of_verifier", [False, True])
def test_numbers_no_float_can_hold(where: str, of_verifier: bool) -> None:
    config = _native("verifier" if of_verifier else "dflash-zlab")
    *parents, last = where.split(".")
    target = config
    for part in parents:
        target = target[part]
    target[last] = 10**400
    with written(json.dumps(config), PAIRS / "dflash-zlab" / "model.safetensors") as root:
        answered(PAIRS / "dflash-zlab" if of_verifier else root, root if of_verifier else VERIFIER)


@pytest.mark.parametrize("kinds", [{"0": "x", "1": "y"}, {"a": {}}, "full_attention", True, [None, 0], [[], {}]])
@pytest.mark.parametrize(
    "name", sorted(f"{layout}-{method}" for layout in ("native", "converted") for method in NATIVE)
)
def test_layer_types_that_are_no_list(name: str, kinds: Any) -> None:
    method, base = BASES[name]
    config = copy.deepcopy(base)
    config.get("transformer_layer_config", config)["layer_types"] = kinds
    with written(json.dumps(config), headers(method)) as root:
        answered(root, None)
