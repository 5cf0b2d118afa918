"""What is known and not converted is refused by name, with the reason and what serves it; its neighbour is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import drafters
import pytest
from command_line import spectool
from dialect_fixtures import ALL, rebuilt
from drafters import Size, Spec
from mutations import PAIRS, VERIFIER, both, folder, put, with_zeros

from spectool import api
from spectool.conversion import refuse_variants
from spectool.dialects.catalogue import dialect_named
from spectool.dialects.detect import candidates, detect, is_whole_model
from spectool.dialects.recognised import recognise, recognised_layouts
from spectool.dialects.view import View
from spectool.errors import RefusedError, SourceError
from spectool.inspection import Inspection
from spectool.tensors.quantised import served_by

ZLAB, DEEPSPEC = drafters.zlab(Size()), drafters.deepspec(Size())


def like(view: View, *tensors: str, **top: Any) -> View:
    """A folder with more tensors and other top-level keys; `dflash_config__x` goes into dflash_config."""
    config = {**view.config, "dflash_config": dict(view.config.get("dflash_config", {}))}
    for key, value in top.items():
        outer, _, inner = key.partition("__")
        if inner:
            config[outer][inner] = value
        else:
            config[key] = value
    return View("folder", config, {**view.tensors, **{name: Spec("BF16", (1,)) for name in tensors}})


def arch(view: View, name: str, *tensors: str, **top: Any) -> View:
    return like(view, *tensors, architectures=[name], **top)


def only(*tensors: str, **config: Any) -> View:
    return View("folder", config, {name: Spec("BF16", (1,)) for name in tensors})


CASES: dict[str, View] = {
    "speculators-eagle3": only("fc.weight", "mask_hidden", speculators_model_type="eagle3"),
    "speculators-dflash2": only(speculators_model_type="dflash2"),
    "speculators-mtp": only(speculators_model_type="mtp"),
    "speculators-fork": only(speculators_model_type="dsv4_dspark"),
    "deepseek-v4-in-target": only("mtp.2.markov_head.markov_w1.weight", dspark_block_size=5),
    "dspark-gemma4": arch(DEEPSPEC, "Gemma4DSparkModel", "layers.0.layer_scalar"),
    "dspark-k3": arch(DEEPSPEC, "K3DSparkModel", model_type="k3_dspark"),
    "dspark-muse-spark": arch(DEEPSPEC, "MuseSparkDSparkModel"),
    "dspark-omni": arch(DEEPSPEC, "Qwen3OmniDSparkModel"),
    "dspark-gated-q": arch(DEEPSPEC, "Qwen35DSparkModel", enable_qwen35_gated_q_proj=True),
    "dspark-sglang-only": arch(DEEPSPEC, "LingDSparkModel"),
    "dspark-draft-adapter": like(DEEPSPEC, "draft_adapter.0.weight"),
    "dflash-laguna": arch(ZLAB, "DFlashLagunaForCausalLM", "aux_hidden_norms.0.weight"),
    "dflash2": like(ZLAB, "candidate_selector.hidden_projection.weight", dflash_config__conv_kernel_size=2),
    "dflash-verl-continued": like(ZLAB, model_type="dflash"),  # z-lab's nested keys are still there
    "domino": like(ZLAB, "prefix_gru.weight_ih_l0", dflash_config__projector_type="domino"),
    "dflare": arch(ZLAB, "QwenDFlareDraftModel"),
    "lilicorr": arch(ZLAB, "LiLiCorrDraftModel"),
    "xpress": arch(ZLAB, "Qwen3XPressModel"),
    "mla": like(ZLAB, dflash_config__attention_mode="mla"),
    "gemma-norm": like(ZLAB, use_gemma_norm=True),
    "eagle-medusa": only(
        "midlayer.hidden_norm.weight", "fc.weight", "parallel_draft_heads.0.medusa_layers.0.linear.bias"
    ),
    "peagle-prototype": only("fc.weight", "mask_token_embedding", architectures=["PEagleDraftModel"]),
    "deepspec-eagle3": only("layers.0.hidden_norm.weight", "fc.weight", architectures=["Qwen3Eagle3Model"]),
    "eagle3": only("midlayer.hidden_norm.weight", "fc.weight", architectures=["LlamaForCausalLM"]),
    "eagle": only("fc.weight", "layers.0.mlp.up_proj.weight", architectures=["EagleLlamaForCausalLM"]),
    "medusa": only("0.0.linear.weight", "0.1.weight", medusa_num_heads=3),
    "mlp-speculator": only("speculator.emb.0.weight", model_type="mlp_speculator"),
    "mtp": only("mtp.layers.0.mlp.up_proj.weight"),
    "pard": only("layers.0.mlp.up_proj.weight", pard_token=128002, architectures=["LlamaForCausalLM"]),
    "dspark-head-only": arch(DEEPSPEC, "SomeForkModel"),
}


# verl-SpeCo's: Domino's and DFlash2's own model_type, before anything else in the folder is known.
@pytest.mark.parametrize("kind", ["domino", "dflash2"])
def test_a_model_type_alone_names_it(kind: str) -> None:
    found = recognise(only("fc.weight", model_type=kind))
    assert found is not None
    assert found.name == kind


@pytest.mark.parametrize(
    "key", [{"block_size": 8}, {"rope_parameters": {"rope_type": "yarn"}}, {"dflash_config": {"mask_token_id": 127}}]
)
def test_what_verl_speco_kept_of_another_drafter_is_not_believed(key: dict[str, Any]) -> None:
    plain = ALL["dflash-verl"].view
    assert detect(plain).file.dialect == "dflash-verl"
    with pytest.raises(RefusedError, match="went on training"):
        detect(replace(plain, config={**plain.config, **key}))


def test_every_entry_has_a_case() -> None:
    assert sorted(CASES) == sorted(item.name for item in recognised_layouts())


@pytest.mark.parametrize("name", sorted(CASES))
def test_it_is_refused_by_its_own_name(name: str) -> None:
    view = CASES[name]
    assert candidates(view) == []
    entry = recognise(view)
    assert entry is not None
    assert entry.name == name
    with pytest.raises(RefusedError) as error:
        detect(view)
    assert entry.title in error.value.message
    assert entry.why in error.value.message
    assert (error.value.hint or "") == entry.instead
    assert error.value.exit_code == 1


@pytest.mark.parametrize(
    ("view", "dialect"),
    [
        (like(ZLAB, use_gemma_norm=False), "dflash-zlab"),
        (like(ZLAB, dflash_config__attention_mode="gqa"), "dflash-zlab"),
        (like(DEEPSPEC, enable_qwen35_gated_q_proj=False), "dspark-deepspec"),
        (like(DEEPSPEC, dspark_bonus_anchor=False), "dspark-deepspec"),
        (like(DEEPSPEC, dspark_bonus_anchor=True), "dspark-nemotron"),
        (like(drafters.peagle(Size()), "midlayer.hidden_norm.weight", pard_token=127), "peagle-vllm"),
        (arch(drafters.peagle(Size()), "LlamaForCausalLMPeagle", specforge_parallel_drafting=True), "peagle-vllm"),
        (like(ZLAB, dflash_config__causal=False), "dflash-zlab"),
        (like(ZLAB, dflash_config__use_swa=True), "dflash-modelopt"),
        (like(ZLAB, "layers.0.self_attn.attention_sink_bias"), "dflash-modelopt"),
        (like(ZLAB, markov_rank=4), "dspark-labelled"),
        (replace(ZLAB, side_files=("mask_embedding.pt",)), "dflash-mimo"),
    ],
)
def test_its_neighbour_is_not(view: View, dialect: str) -> None:
    assert [item.file.dialect for item in candidates(view)] == [dialect]


GATED = [
    ("dspark-deepspec", "markov_head.gate_proj.weight"),
    ("dspark-deepspec", "markov_head.joint_proj.bias"),
    ("dspark-specforge-early", "logit_head.markov_head.gate_proj.weight"),
    ("dspark-modelopt", "gate_proj.weight"),
    ("dspark-lfm2", "markov_head.gate_proj.weight"),
    ("dspark-dual", "markov_head.joint_proj.weight"),
    ("dspark-labelled", "markov_head.gate_proj.weight"),
]


@pytest.mark.parametrize(("name", "tensor"), GATED)
def test_gated_and_rnn_heads_are_refused_whoever_wrote_them(name: str, tensor: str) -> None:
    view = rebuilt(ALL[name].view, name, lambda config, shapes: shapes.update({tensor: (4, 36)}))
    dialect = detect(view)
    found = Inspection(None, view, dialect, None, None)  # type: ignore[arg-type]  # the parts that are not looked at
    with pytest.raises(RefusedError, match="vanilla Markov head") as error:
        refuse_variants(found)
    assert error.value.code == "HED001"
    assert "SGLang" in (error.value.hint or "")
    refuse_variants(replace(found, view=ALL[name].view))


QUANTISED = {
    "compressed-tensors": put("quantization_config", {"quant_method": "compressed-tensors"}),
    "modelopt": put("quantization_config", {"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}),
    "MLX": both(put("quantization", {"group_size": 64, "bits": 4}), with_zeros("fc.scales", 128, 6)),
    "weight_scale": with_zeros("layers.0.mlp.up_proj.weight_scale", 1),
}


@pytest.mark.parametrize("method", sorted(QUANTISED))
def test_quantised_weights_are_refused_by_name(method: str, tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", QUANTISED[method])
    with pytest.raises(RefusedError, match=method) as error:
        api.plan_conversion(str(source), verifier=str(VERIFIER))
    assert error.value.code == "QNT001"
    report = api.validate(str(source), verifier=str(VERIFIER))
    code = "QNT001" if method == "MLX" else "QNT002"  # settings and tensors disagree in these copies
    assert [item.code for item in report.findings if item.severity == "error"] == [code]


@pytest.mark.parametrize(
    ("dialect", "kind", "words"),
    [
        ("dflash-zlab", "compressed-tensors", '"method": "dflash", "model": "FOLDER"'),
        ("dflash-zlab", "MLX", "MLX runs it, vLLM does not"),
        ("dspark-specforge", "modelopt", "vLLM does not load this layout"),
        ("dspark-speculators", "fp8", "vllm serve FOLDER (vLLM >= 0.31)"),
        ("peagle-vllm", "fp8", '"method": "eagle3", "parallel_drafting": true'),
    ],
)
def test_what_serves_a_quantised_drafter(dialect: str, kind: str, words: str) -> None:
    assert words in served_by(kind, dialect_named(dialect).file)


def test_a_null_quantisation_is_none(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put("quantization_config", None))
    assert api.validate(str(source), verifier=str(VERIFIER)).findings == ()


def test_a_mask_embedding_file_that_is_none_is_named(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put("dflash_config.use_swa", False))
    (source / "mask_embedding.pt").write_bytes(b"")
    with pytest.raises(SourceError, match=r"mask_embedding\.pt: not in torch's zip format"):
        api.plan_conversion(str(source), verifier=str(VERIFIER))


def test_gguf_is_named(tmp_path: Path) -> None:
    (tmp_path / "drafter-Q4_K_M.gguf").write_bytes(b"GGUF")
    for source in (tmp_path, tmp_path / "drafter-Q4_K_M.gguf"):
        for command in ("inspect", "validate"):
            done = spectool(command, str(source))
            assert done.code == 1
            assert "drafter-Q4_K_M.gguf is a GGUF file" in done.out + done.err
            assert "QNT001" in done.out + done.err


def test_a_lora_adapter_is_named(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    for command in (["inspect"], ["validate"], ["convert", "--dry-run"]):
        done = spectool(*command, str(tmp_path), *(["--verifier", str(VERIFIER)] if command != ["inspect"] else []))
        assert done.code == 1
        assert "a LoRA adapter" in done.out + done.err
        assert "--lora-modules" in done.out + done.err
    done = spectool("validate", str(PAIRS / "dflash-zlab"), "--verifier", str(tmp_path))
    assert done.code == 2
    assert "--verifier" in done.err
    # Beside a config.json the adapter is somebody's leftover.
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put("block_size", 8))
    (source / "adapter_config.json").write_text("{}")
    assert api.inspect(str(source)).dialect.file.dialect == "dflash-zlab"


def test_a_verifier_in_the_drafters_place_is_named() -> None:
    done = spectool("convert", str(VERIFIER), "out", "--verifier", str(PAIRS / "dflash-zlab"))
    assert done.code == 1
    assert "verifier is a whole language model (Qwen3ForCausalLM), no drafter" in done.err
    assert "swapped" in done.err
    done = spectool("inspect", str(VERIFIER))
    assert done.code == 0
    assert "a verifier: Qwen3ForCausalLM, 6 layers, hidden 128, vocabulary 512" in done.out


@pytest.mark.parametrize(
    ("tensors", "whole"),
    [
        (("model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight"), True),
        (
            (
                "model.language_model.embed_tokens.weight",
                "language_model.model.layers.0.input_layernorm.weight",
                "language_model.model.norm.weight",
            ),
            True,
        ),
        (("model.layers.0.input_layernorm.weight", "model.norm.weight"), False),
        (
            (
                "model.embed_tokens.weight",
                "model.layers.0.input_layernorm.weight",
                "model.norm.weight",
                "model.fc.weight",
            ),
            False,
        ),
    ],
)
def test_what_a_whole_model_is(tensors: tuple[str, ...], whole: bool) -> None:
    assert is_whole_model(only(*tensors)) == whole


def test_a_gguf_copy_beside_safetensors_is_no_matter(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", put("block_size", 8))
    (source / "copy.gguf").write_bytes(b"GGUF")
    assert api.inspect(str(source)).dialect.file.dialect == "dflash-zlab"
