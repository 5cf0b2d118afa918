"""What a finding about tensors suggests: another name, a prefix, a flag; and nothing where nothing is suggested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mutations import NATIVE, PAIRS, VERIFIER, Change, both, folder, put, with_zeros, without

from spectool import api
from spectool.api import Report

USUAL = {"TEN001": "Use the complete checkpoint.", "TEN002": "Find out what the tensor is for"}


def named(rename: Callable[[str], str]) -> Change:
    def change(config: dict[str, object], tensors: dict[str, object]) -> None:
        items = {rename(name): value for name, value in tensors.items()}
        tensors.clear()
        tensors.update(items)

    return change


def report(tmp_path: Path, method: str, change: Change, verifier: Path = VERIFIER) -> Report:
    drafter = folder(PAIRS / NATIVE[method], tmp_path / "drafter", change)
    settings = {"speculative_tokens": 5} if method == "peagle" else None
    return api.validate(str(drafter), verifier=str(verifier), settings=settings)


def advice(found: Report) -> dict[str, str]:
    return {item.code: item.fix for item in found.findings}


def test_another_name_for_a_missing_tensor(tmp_path: Path) -> None:
    said = advice(report(tmp_path, "dflash", named(lambda name: name.replace("fc.weight", "fuse.weight"))))
    suggestion = "By its shape fuse.weight could be the missing fc.weight: if so, rename it in the file."
    assert said == {"TEN001": suggestion, "TEN002": suggestion}


def test_two_of_a_shape_suggest_nothing(tmp_path: Path) -> None:
    def rename(name: str) -> str:
        return {"norm.weight": "a.weight", "hidden_norm.weight": "b.weight"}.get(name, name)

    said = advice(report(tmp_path, "dflash", named(rename)))
    assert {code: text.startswith(USUAL[code]) for code, text in said.items()} == {"TEN001": True, "TEN002": True}


def test_another_shape_suggests_nothing(tmp_path: Path) -> None:
    said = advice(report(tmp_path, "dflash", both(without("fc.weight"), with_zeros("fuse.weight", 128, 128))))
    assert all(said[code].startswith(USUAL[code]) for code in ("TEN001", "TEN002"))


def test_names_under_a_prefix(tmp_path: Path) -> None:
    found = report(tmp_path, "dflash", named(lambda name: f"model.{name}"))
    assert set(advice(found).values()) == {
        "Its names begin with 'model.': read them without it by --set tensors_under=model."
    }
    again = api.validate(str(tmp_path / "drafter"), verifier=str(VERIFIER), settings={"tensors_under": "model."})
    assert again.findings == ()


@pytest.mark.parametrize(
    ("tensors", "key"),
    [
        (with_zeros("input_norm.weight", 384), "norm_before_fc"),
        (both(*(with_zeros(f"fc_norm.{tap}.weight", 128) for tap in range(3))), "fc_norm"),
        (with_zeros("odd_norm.weight", 384), None),
    ],
)
def test_tensors_of_a_flag(tensors: Change, key: str | None, tmp_path: Path) -> None:
    settings = {"speculative_tokens": 5}
    plan = api.plan_conversion(str(PAIRS / NATIVE["peagle"]), verifier=str(VERIFIER), settings=settings)
    api.convert(plan, tmp_path / "converted")
    drafter = folder(tmp_path / "converted", tmp_path / "drafter", tensors)
    said = advice(api.validate(str(drafter), verifier=str(VERIFIER)))["TEN002"]
    assert (f"`{key}: true`" in said) == (key is not None)
    assert said.startswith(USUAL["TEN002"]) == (key is None)


def test_a_wider_verifier_is_one_finding(tmp_path: Path) -> None:
    """Its rows are wider because it is another model; a drafter of another width by design has rows of its own."""
    wider = folder(VERIFIER, tmp_path / "verifier", both(put("hidden_size", 256), *_rows(256)))
    found = report(tmp_path, "dflash", both(), wider)
    assert [item.code for item in found.findings] == ["VER003"]


def _rows(width: int) -> tuple[Change, Change]:
    return with_zeros("model.embed_tokens.weight", 512, width), with_zeros("lm_head.weight", 512, width)


def test_a_head_that_is_gone_is_no_flag_that_is_wrong(tmp_path: Path) -> None:
    gone = without("confidence_head.proj.weight", "confidence_head.proj.bias")
    assert [item.code for item in report(tmp_path, "dspark", gone).findings] == ["TEN001"]


@pytest.mark.parametrize(
    ("other", "says"), [("kimi_k2", "model_type: llama`: the tensors have no q/k norms."), ("qwen3", None)]
)
def test_the_decoder_is_told_by_its_norms(other: str, says: str | None, tmp_path: Path) -> None:
    plan = api.plan_conversion(
        str(PAIRS / NATIVE["peagle"]), verifier=str(VERIFIER), settings={"speculative_tokens": 5}
    )
    api.convert(plan, tmp_path / "converted")
    changed = put("transformer_layer_config.model_type", other)
    found = advice(api.validate(str(folder(tmp_path / "converted", tmp_path / "d", changed)), verifier=str(VERIFIER)))
    assert found.get("CFG003", "").endswith(says or "")
    assert ("CFG003" in found) is (says is not None)
