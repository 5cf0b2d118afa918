# ruff: noqa: E501 - tables: one fault, one line
"""One fault planted in a good pair: exactly its own rule speaks. And near misses: nothing does."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from faults import CONVERTED_FAULTS, NATIVE_FAULTS, NEAR_MISSES
from mutations import NATIVE, PAIRS, VERIFIER, Change, both, folder, nothing, put, without

from spectool import api

K5 = {"speculative_tokens": 5}


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The converted folder of a method's example pair."""
    root = tmp_path_factory.mktemp("converted")

    @cache
    def make(method: str) -> Path:
        settings = {"verifier": "spectool/tiny-verifier", **(K5 if method == "peagle" else {})}
        plan = api.plan_conversion(str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), settings=settings)
        api.convert(plan, root / method)
        return root / method

    return make


def codes(drafter: Path, verifier: Path = VERIFIER) -> set[str]:
    """The codes of all errors and warnings; notes leave the exit code alone."""
    native_peagle = (drafter / "config.json").read_text().find("ptd_token_id") > 0
    report = api.validate(str(drafter), verifier=str(verifier), settings=K5 if native_peagle else None)
    return {finding.code for finding in report.findings if finding.severity != "note"}


@pytest.mark.parametrize(
    ("method", "name", "change", "expected"), NATIVE_FAULTS, ids=[f"{m}-{n}" for m, n, *_ in NATIVE_FAULTS]
)
def test_fault_in_a_native_folder(method: str, name: str, change: Change, expected: set[str], tmp_path: Path) -> None:
    assert codes(folder(PAIRS / NATIVE[method], tmp_path / "drafter", change)) == expected


@pytest.mark.parametrize(
    ("method", "name", "change", "expected"), CONVERTED_FAULTS, ids=[f"{m}-{n}" for m, n, *_ in CONVERTED_FAULTS]
)
def test_fault_in_a_speculators_folder(
    method: str, name: str, change: Change, expected: set[str], tmp_path: Path, converted: Callable[[str], Path]
) -> None:
    assert codes(folder(converted(method), tmp_path / "drafter", change)) == expected


@pytest.mark.parametrize(
    ("layout", "method", "name", "change"), NEAR_MISSES, ids=[f"{layout}-{m}-{n}" for layout, m, n, _ in NEAR_MISSES]
)
def test_near_miss_is_clean(
    layout: str, method: str, name: str, change: Change, tmp_path: Path, converted: Callable[[str], Path]
) -> None:
    base = PAIRS / NATIVE[method] if layout == "native" else converted(method)
    assert codes(folder(base, tmp_path / "drafter", change)) == set()


@pytest.mark.parametrize("method", NATIVE)
def test_good_pairs_are_clean(method: str, converted: Callable[[str], Path]) -> None:
    assert codes(PAIRS / NATIVE[method]) == set()
    assert codes(converted(method)) == set()


def all_of(expected: set[str]) -> dict[str, set[str]]:
    return dict.fromkeys(NATIVE, expected)


VERIFIER_FAULTS = [
    ("shallower", put("num_hidden_layers", 4), {"dflash": {"AUX001", "VER002", "VER008"}, "dspark": {"AUX001", "VER002", "VER008"}, "peagle": {"AUX001", "VER008"}}),
    ("wider", put("hidden_size", 256), all_of({"VER003"})),
    ("another vocabulary", put("vocab_size", 640), all_of({"VOC001"})),
    ("cannot verify", put("architectures", ["MixtralForCausalLM"]), all_of({"VER001"})),
    ("unknown", put("architectures", ["NoSuchForCausalLM"]), all_of({"VER001"})),
    ("another capable class", put("architectures", ["LlamaForCausalLM"]), all_of({"VER009"})),
    ("no embedding", without("model.embed_tokens.weight"), {"dflash": {"VER004"}, "dspark": {"VER009"}, "peagle": {"VER009"}}),
    ("tied", both(put("tie_word_embeddings", True), without("lm_head.weight")), all_of(set())),
    ("longer", put("max_position_embeddings", 2049), all_of(set())),
    ("no head", without("lm_head.weight"), {"dflash": {"VER004"}, "dspark": {"VER009"}, "peagle": {"VER009"}}),
]  # fmt: skip


@pytest.mark.parametrize("method", NATIVE)
@pytest.mark.parametrize(("name", "change", "expected"), VERIFIER_FAULTS, ids=[name for name, *_ in VERIFIER_FAULTS])
def test_fault_in_the_verifier(
    method: str, name: str, change: Change, expected: dict[str, set[str]], tmp_path: Path
) -> None:
    verifier = folder(VERIFIER, tmp_path / "verifier", change)
    assert codes(PAIRS / NATIVE[method], verifier) == expected[method]


def test_name_that_is_no_hub_id_is_a_note(tmp_path: Path, converted: Callable[[str], Path]) -> None:
    change = put("speculators_config.verifier.name_or_path", "/model/from_s3")
    report = api.validate(str(folder(converted("dflash"), tmp_path / "d", change)), verifier=str(VERIFIER))
    assert [(finding.code, finding.severity) for finding in report.findings] == [("VER005", "note")]
    report = api.validate(str(folder(converted("dflash"), tmp_path / "e", nothing)), verifier=str(VERIFIER))
    assert report.findings == ()


def test_what_cannot_be_checked_is_said() -> None:
    report = api.validate(str(PAIRS / "peagle-native"))
    assert {unknown.code for unknown in report.unknowns} == {
        "AUX001",
        "SLT002",
        "VER001",
        "VER003",
        "VOC001",
        "CFG005",
        "LEN001",
    }


def lengths(engine: str, ours: int, theirs: int, method: str, tmp_path: Path, rope: str = "default") -> list[str]:
    """LEN001's effects for a pair of max_position_embeddings."""
    scaling = {"rope_type": rope, "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 1024}
    change = both(put("max_position_embeddings", ours), put("rope_parameters", scaling))
    drafter = folder(PAIRS / NATIVE[method], tmp_path / f"d-{engine}-{ours}-{rope}", change)
    verifier = folder(VERIFIER, tmp_path / f"v-{engine}-{theirs}-{ours}-{rope}", put("max_position_embeddings", theirs))
    report = api.validate(
        str(drafter), verifier=str(verifier), settings=K5 if method == "peagle" else None, engine=engine
    )
    return [finding.message.partition(" in vLLM ")[2] for finding in report.findings if finding.code == "LEN001"]


@pytest.mark.parametrize(
    ("engine", "method", "rope", "effect"),
    [
        ("0.33.0", "dflash", "default", ""),
        ("0.33.0", "dflash", "yarn", "0.33.0 the served length is lowered to 2047"),
        ("0.33.0", "peagle", "yarn", "0.33.0 longer requests are no longer drafted for"),
        ("0.33.0", "peagle", "linear", ""),
        ("0.32.0", "dflash", "default", "0.32.0 positions beyond are read past the drafter's rope table"),
        ("0.32.0", "peagle", "yarn", "0.32.0 longer requests are no longer drafted for"),
        ("0.26.0", "peagle", "default", "0.26.0 positions beyond are read past the drafter's rope table"),
    ],
)
def test_a_shorter_drafter(engine: str, method: str, rope: str, effect: str, tmp_path: Path) -> None:
    assert lengths(engine, 2047, 2048, method, tmp_path, rope) == ([effect] if effect else [])
    assert lengths(engine, 2048, 2048, method, tmp_path, rope) == []


def test_half_precision(tmp_path: Path) -> None:
    def cast(dtype: str) -> Change:
        def change(config: dict[str, Any], tensors: dict[str, Any]) -> None:
            _, shape, data = tensors["norm.weight"]
            tensors["norm.weight"] = (dtype, shape, data)

        return change

    assert codes(folder(PAIRS / "dflash-zlab", tmp_path / "a", cast("F16"))) == {"DTY001"}
    assert codes(folder(PAIRS / "dflash-zlab", tmp_path / "b", cast("BF16"))) == set()


def test_tokenizers_are_compared_by_content(tmp_path: Path) -> None:
    drafter = folder(PAIRS / "dflash-zlab", tmp_path / "d", nothing)
    tokenizer = json.loads((VERIFIER / "tokenizer.json").read_text())
    (drafter / "tokenizer.json").write_text(json.dumps(tokenizer, indent=7))
    assert codes(drafter) == set()
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary[tokens[100]], vocabulary[tokens[101]] = vocabulary[tokens[101]], vocabulary[tokens[100]]
    (drafter / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert codes(drafter) == {"VER006"}
    (drafter / "tokenizer.json").write_text("no json")
    assert codes(drafter) == set()


def test_a_quantised_verifier_is_a_note(tmp_path: Path) -> None:
    verifier = folder(
        VERIFIER, tmp_path / "v", put("quantization_config", {"quant_method": "fp8", "activation_scheme": "dynamic"})
    )
    report = api.validate(str(PAIRS / "dflash-zlab"), verifier=str(verifier))
    assert [(finding.code, finding.severity) for finding in report.findings] == [("VER007", "note")]
