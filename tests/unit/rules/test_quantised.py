"""Quantised drafters: what vLLM runs is checked like any other, tensor by tensor; nothing is said of what is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations import PAIRS, VERIFIER, Change, Config, Tensors, both, folder, put, with_zeros, without

from spectool import api

MLP = ("gate_proj", "up_proj", "down_proj")


def nvfp4(packed: str, scales: dict[str, str], settings: dict[str, object]) -> Change:
    """Quantise every MLP to four bits: two values a byte, a scale per sixteen."""

    def change(config: Config, tensors: Tensors) -> None:
        config["quantization_config"] = settings
        for name in [name for name in tensors if name.removesuffix(".weight").endswith(MLP)]:
            _, (rows, columns), _ = tensors.pop(name)
            stem = name.removesuffix(".weight")
            tensors[stem + packed] = ("U8", (rows, columns // 2), bytes(rows * columns // 2))
            for suffix, kind in scales.items():
                shape = (rows, columns // 16) if suffix == ".weight_scale" else (1,)
                size = shape[0] * (shape[1] if len(shape) > 1 else 1) * (4 if kind == "F32" else 1)
                tensors[stem + suffix] = (kind, shape, bytes(size))

    return change


FORMS = {
    "compressed-tensors": nvfp4(
        ".weight_packed",
        {".weight_scale": "F8_E4M3", ".weight_global_scale": "F32"},
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
    ),
    "modelopt": nvfp4(
        ".weight",
        {".weight_scale": "F8_E4M3", ".weight_scale_2": "F32", ".input_scale": "F32"},
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    ),
}


def said(tmp_path: Path, change: Change, engine: str = "0.33.0", source: str = "dflash-zlab") -> dict[str, str]:
    drafter = folder(PAIRS / source, tmp_path / f"d{len(list(tmp_path.iterdir()))}", change)
    report = api.validate(str(drafter), verifier=str(VERIFIER), engine=engine)
    return {finding.code: finding.severity for finding in report.findings}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", ["dflash-zlab", "dspark-deepspec", "peagle-native"])
def test_what_vllm_runs_is_a_note(form: str, source: str, tmp_path: Path) -> None:
    assert said(tmp_path, FORMS[form], source=source) == {"QNT004": "note"}


@pytest.mark.parametrize("form", FORMS)
def test_a_quantised_file_is_complete_or_not(form: str, tmp_path: Path) -> None:
    gone = without("layers.1.input_layernorm.weight")
    assert said(tmp_path, both(FORMS[form], gone)) == {"QNT004": "note", "TEN001": "error"}
    odd = with_zeros("layers.0.gate.weight_scale", 1)
    assert said(tmp_path, both(FORMS[form], odd)) == {"QNT004": "note", "TEN002": "error"}
    short = with_zeros("layers.0.self_attn.q_proj.weight", 127, 128)
    assert said(tmp_path, both(FORMS[form], short)) == {"QNT004": "note", "TEN003": "error"}


def test_scales_without_their_weight_and_weights_without_their_scale(tmp_path: Path) -> None:
    form = FORMS["compressed-tensors"]
    assert said(tmp_path, both(form, without("layers.1.mlp.up_proj.weight_packed"))) == {
        "QNT004": "note",
        "TEN001": "error",
    }
    scales = without("layers.1.mlp.up_proj.weight_scale", "layers.1.mlp.up_proj.weight_global_scale")
    assert said(tmp_path, both(form, scales)) == {"QNT002": "error", "QNT004": "note"}


def test_settings_in_the_side_file(tmp_path: Path) -> None:
    drafter = folder(PAIRS / "dflash-zlab", tmp_path / "d", both(FORMS["modelopt"], put("quantization_config", ...)))
    codes = [item.code for item in api.validate(str(drafter), verifier=str(VERIFIER)).findings]
    (drafter / "hf_quant_config.json").write_text("{}")
    beside = [item.code for item in api.validate(str(drafter), verifier=str(VERIFIER)).findings]
    assert (codes, beside) == (["QNT002", "QNT004"], ["QNT004"])


def test_a_copy_of_the_recorded_verifier_is_named(tmp_path: Path) -> None:
    plan = api.plan_conversion(
        str(PAIRS / "dflash-zlab"), verifier=str(VERIFIER), settings={"verifier": "spectool/tiny-verifier"}
    )
    api.convert(plan, tmp_path / "out")
    for name, word in (("Tiny-Verifier-FP8", "a copy of tiny-verifier"), ("other-FP8", None)):
        verifier = folder(
            VERIFIER,
            tmp_path / name,
            put("quantization_config", {"quant_method": "fp8", "activation_scheme": "dynamic"}),
        )
        (finding,) = api.validate(str(tmp_path / "out"), verifier=str(verifier)).findings
        assert finding.code == "VER007"
        assert ("a copy of" in finding.message) is (word is not None)
        assert word is None or word in finding.message


@pytest.mark.parametrize(
    ("architecture", "method", "noted"),
    [
        ("GptOssForCausalLM", "mxfp4", False),
        ("GptOssForCausalLM", "fp8", True),
        ("Qwen3ForCausalLM", "mxfp4", True),
        ("MiniMaxM2ForCausalLM", "fp8", False),
        ("MiniMaxM2ForCausalLM", "modelopt", True),
    ],
)
def test_an_original_that_is_quantised_is_no_copy(architecture: str, method: str, noted: bool, tmp_path: Path) -> None:
    changed = both(put("architectures", [architecture]), put("quantization_config", {"quant_method": method}))
    verifier = folder(VERIFIER, tmp_path / "v", changed)
    report = api.validate(str(PAIRS / "dflash-zlab"), verifier=str(verifier))
    assert ("VER007" in {item.code for item in report.findings}) is noted


def test_the_very_copy_a_drafter_was_trained_with_is_no_note(tmp_path: Path) -> None:
    named = {"verifier": "spectool/Tiny-FP8"}
    api.convert(
        api.plan_conversion(str(PAIRS / "dflash-zlab"), verifier=str(VERIFIER), settings=named), tmp_path / "out"
    )
    quantised = put("quantization_config", {"quant_method": "fp8"})
    for name, noted in (("tiny-fp8", False), ("tiny-fp8-dynamic", True)):
        verifier = folder(VERIFIER, tmp_path / name, quantised)
        report = api.validate(str(tmp_path / "out"), verifier=str(verifier))
        assert ("VER007" in {item.code for item in report.findings}) is noted
