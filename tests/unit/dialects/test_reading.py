"""The trainer's reading, field by field, where somebody could get it wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import drafters
import pytest
from drafters import Size
from mutations import PAIRS, VERIFIER, folder, nothing, put
from readings import trained

from spectool import api
from spectool.dialects.catalogue import catalogue, match_of, parse_dialect
from spectool.dialects.detect import detect
from spectool.dialects.sources import parse_setting
from spectool.dialects.view import View
from spectool.drafter.model import Attention, Rope
from spectool.errors import QuestionError, RefusedError, SourceError, UsageError
from spectool.resources import data_folder


@pytest.mark.parametrize(("stated", "aux"), [([0, 2, 4], (1, 3, 5)), ([-1, 7], (0, 8)), ([4, 0], (5, 1))])
def test_output_ids_become_input_ids_in_the_files_order(stated: list[int], aux: tuple[int, ...]) -> None:
    view = drafters.zlab(Size(taps=aux))
    assert view.config["dflash_config"]["target_layer_ids"] == stated
    assert trained(view).drafter.aux_layers == aux


def test_p_eagles_ids_are_input_ids_already() -> None:
    assert trained(drafters.peagle(Size(taps=(2, 4, 5)))).drafter.aux_layers == (2, 4, 5)


def test_the_convention_can_be_overruled() -> None:
    reading = trained(drafters.peagle(Size(taps=(1, 3, 5))), aux_layer_convention="output")
    assert reading.drafter.aux_layers == (2, 4, 6)


@pytest.mark.parametrize(("depth", "aux"), [(36, (2, 18, 33)), (24, (2, 12, 21)), (7, (2, 3, 4))])
def test_eagle3_default_needs_the_depth(depth: int, aux: tuple[int, ...]) -> None:
    size = Size(depth=depth)
    view = drafters.peagle(size, eagle_config={})
    reading = trained(view, drafters.verifier(size), speculative_tokens=5)
    assert reading.drafter.aux_layers == aux
    assert [item.field for item in reading.assumptions] == ["aux_layers"]
    assert [question.key for question in trained(view, speculative_tokens=5).questions] == ["verifier"]


@pytest.mark.parametrize(
    ("view", "slots", "tokens"),
    [
        (drafters.zlab(Size(block=8)), "bonus-anchor", 7),
        (drafters.zlab(Size(block=16)), "bonus-anchor", 15),
        (drafters.deepspec(Size(block=7)), "anchor-first", 7),
    ],
)
def test_k_follows_from_block_and_slots(view: View, slots: str, tokens: int) -> None:
    drafter = trained(view).drafter
    assert (drafter.slots, drafter.speculative_tokens, drafter.most_tokens) == (slots, tokens, tokens)


def test_nested_and_top_level_block_sizes_must_agree() -> None:
    nested = {"mask_token_id": 127, "target_layer_ids": [0, 2, 4], "block_size": 8}
    assert trained(drafters.zlab(Size(block=8), dflash_config=nested)).gaps == ()
    gaps = trained(drafters.zlab(Size(block=16), dflash_config=nested)).gaps
    assert [(gap.field, gap.kind) for gap in gaps] == [("block_size", "conflict")]


def test_an_open_question_names_key_values_and_flag() -> None:
    reading = trained(drafters.peagle(Size()))
    with pytest.raises(QuestionError) as error:
        reading.require_answers()
    assert "speculative_tokens" in error.value.message
    assert "5, 7, 8, 10" in error.value.message
    assert error.value.hint == "Answer with --set speculative_tokens=5."


def test_an_answer_wins_over_the_file_and_is_recorded() -> None:
    reading = trained(drafters.zlab(Size(mask=100)), mask_token_id=101)
    assert reading.drafter.mask_token_id == 101
    assert [(item.field, item.value) for item in reading.assumptions] == [("mask_token_id", "101")]
    assert trained(drafters.zlab(Size(mask=100)), mask_token_id=100).assumptions == ()


ALL_SWA = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 64}
FULL, SWA = Attention(None, causal=False), Attention(64, causal=True)


@pytest.mark.parametrize(
    ("extra", "top", "attention"),
    [
        ({}, {}, (FULL, FULL)),
        ({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}, {}, (SWA, FULL)),
        (ALL_SWA, {"is_causal": False}, (Attention(64, causal=False),) * 2),
        ({}, {"is_causal": True}, (Attention(None, causal=True),) * 2),
    ],
)  # fmt: skip
def test_zlab_trains_full_layers_both_ways_and_sliding_ones_causally(
    extra: dict[str, Any], top: dict[str, Any], attention: tuple[Attention, ...]
) -> None:
    assert trained(drafters.zlab(Size(extra=extra), **top)).drafter.attention == attention


@pytest.mark.parametrize(
    ("extra", "rope"),
    [
        ({"rope_parameters": None, "rope_theta": 1e6, "rope_scaling": None}, Rope(1e6, 8)),
        ({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default", "mrope_section": [1, 1, 2]}}, Rope(1e6, 8)),
        (
            {"rope_parameters": None, "rope_theta": 5e4, "rope_scaling": {"type": "yarn", "factor": 64}},
            Rope(5e4, 8, (("factor", 64.0), ("rope_type", "yarn"))),
        ),
        ({"rope_is_neox_style": False}, Rope(1e4, 8, interleaved=True)),
    ],
)
def test_both_generations_of_rope_keys(extra: dict[str, Any], rope: Rope) -> None:
    assert trained(drafters.zlab(Size(extra=extra))).drafter.rope == rope


def test_inherited_partial_rotary_is_dropped_and_said() -> None:
    view = drafters.zlab(Size(extra={"partial_rotary_factor": 0.25}))
    reading = trained(view)
    assert reading.drafter.rope == Rope(1e4, 8)
    assert [item.field for item in reading.assumptions] == ["rope"]
    assert trained(view, rope__partial=0.25).drafter.rope == Rope(1e4, 2)


# What z-lab published for gemma-4-31B-it, as the catalogue knows it.
GEMMA_31B = Size(
    layers=5, hidden=5376, mlp=10752, heads=64, head_dim=128, vocab=262144, draft_vocab=262144,
    taps=(2, 13, 24, 36, 47, 58), block=16, mask=4, depth=60,
    extra={"layer_types": ["sliding_attention"] * 4 + ["full_attention"], "sliding_window": 2048,
           "use_sliding_window": True},
)  # fmt: skip
GEMMA = drafters.verifier(GEMMA_31B, model_type="gemma4")


def test_a_published_gemma_drafter_has_its_embedding_scaled_by_a_rounded_root() -> None:
    reading = trained(drafters.zlab(GEMMA_31B), GEMMA)
    assert reading.drafter.embedding_scale == 73.5  # sqrt(5376) is 73.32; bfloat16 has 8 bits
    (assumed,) = [item for item in reading.assumptions if item.field == "embedding_scale"]
    assert "z-lab/gemma-4-31B-it-DFlash" in assumed.why
    assert "--set embedding_scale=1" in assumed.why
    assert trained(drafters.zlab(GEMMA_31B), drafters.verifier(GEMMA_31B)).drafter.embedding_scale == 1.0


@pytest.mark.parametrize("changed", [{"extra": {}}, {"taps": (2, 13, 24, 36, 47, 59)}, {"block": 8}, {"mask": 5}])
def test_any_other_gemma_drafter_of_the_layout_is_a_question(changed: dict[str, Any]) -> None:
    view = drafters.zlab(replace(GEMMA_31B, **changed))
    (question,) = trained(view, GEMMA).questions
    assert (question.key, question.plausible) == ("embedding_scale", ("73.5", "1"))
    assert "SpecForge with the raw rows" in question.why
    for answer in (73.5, 1.0):
        settled = trained(view, GEMMA, embedding_scale=answer)
        assert (settled.questions, settled.drafter.embedding_scale) == ((), answer)
    stated = View(view.name, {**view.config, "input_embedding_scale": 2.0}, view.tensors)
    assert (trained(stated, GEMMA).questions, trained(stated, GEMMA).drafter.embedding_scale) == ((), 2.0)


def test_a_published_gemma_drafter_alone_asks_for_its_verifier() -> None:
    (question,) = trained(drafters.zlab(GEMMA_31B)).questions
    assert "--verifier FOLDER settles it" in question.why


def nemo(size: Size, **own: Any) -> View:
    view = drafters.zlab(size)
    block = {**view.config["dflash_config"], **own}
    return View(
        view.name, {**view.config, "architectures": ["Qwen3DFlashDraftModel"], "dflash_config": block}, view.tensors
    )


def test_nemo_multiplies_what_the_verifier_gives() -> None:
    plain, gemma = drafters.verifier(Size()), drafters.verifier(Size(), model_type="gemma3_text")
    for own, verifier, scale in (
        ({}, plain, 1.0),
        ({"input_embedding_scale": 3.5}, plain, 3.5),
        ({}, gemma, 5.65625),
        ({"input_embedding_scale": 1.0}, gemma, 5.65625),
    ):
        reading = trained(nemo(Size(), **own), verifier)
        assert (reading.questions, reading.drafter.embedding_scale) == ((), scale)
    # Rounded to bfloat16 twice: no one factor is exact.
    view = nemo(Size(), input_embedding_scale=3.5)
    (question,) = trained(view, gemma).questions
    assert question.plausible == ("19.7969",)
    assert trained(view, gemma, embedding_scale=19.75).drafter.embedding_scale == 19.75


def test_nemo_multiplies_its_logits() -> None:
    assert trained(nemo(Size(), output_multiplier=0.5)).drafter.logit_scale == 0.5
    assert trained(nemo(Size())).drafter.logit_scale == 1.0


@pytest.mark.parametrize(
    ("config", "tensors", "code", "words"),
    [
        ({"speculators_model_type": "eagle3"}, [], "CFG001", "EAGLE-3"),
        ({"architectures": ["LlamaForCausalLM"]}, ["midlayer.hidden_norm.weight"], "MSK003", "mask_hidden"),
        ({"architectures": ["Gemma4DSparkModel"]}, [], "CFG001", "gemma's own backbone"),
        ({"architectures": ["LlamaForCausalLM"]}, ["model.layers.0.mlp.up_proj.weight"], "CFG001", "no drafter layout"),
    ],
)
def test_what_is_no_drafter_of_ours_is_named(config: dict[str, Any], tensors: list[str], code: str, words: str) -> None:
    shapes = {name: drafters.Spec("BF16", (1,)) for name in tensors}
    with pytest.raises(RefusedError) as error:
        detect(View("folder", config, shapes))
    assert error.value.code == code
    assert words in error.value.message


def test_every_shipped_dialect_names_its_file_and_sources() -> None:
    assert set(catalogue()) >= {"dflash-zlab", "dspark-deepspec", "peagle-vllm"}
    for name, dialect in catalogue().items():
        assert dialect.name == f"{name}.toml"
        assert len(dialect.sha256) == 64


def test_what_a_shipped_dialect_looks_for_is_read_without_the_rest() -> None:
    for dialect in catalogue().values():
        text = (data_folder("converters") / dialect.name).read_text(encoding="utf-8")
        assert match_of(text) == dialect.file.match, dialect.name


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"dialect = ", "dflash-x.toml"),
        (b"\xff", "dflash-x.toml"),
        (b'dialect = "dflash-x"', "title"),
    ],
)
def test_a_broken_dialect_file_is_named(content: bytes, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        parse_dialect("dflash-x.toml", content)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("speculative_tokens", "5", 5),
        ("causal", "True", True),
        ("rope.partial", "0.5", 0.5),
        ("verifier", "a/b", "a/b"),
    ],
)
def test_settings_have_types(key: str, text: str, value: object) -> None:
    assert parse_setting(key, text) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("speculative_token", "5"),
        ("speculative_tokens", "five"),
        ("causal", "1"),
        ("slot_layout", "anchor"),
        ("rope.theta", "x"),
    ],
)
def test_bad_settings_are_usage_errors(key: str, text: str) -> None:
    with pytest.raises(UsageError):
        parse_setting(key, text)


@pytest.mark.parametrize(
    ("stated", "slots", "tokens"), [(None, "anchor-first", 7), (True, "anchor-first", 7), (False, "bonus-anchor", 6)]
)
def test_deepspec_is_anchor_first_unless_the_file_says_otherwise(
    stated: bool | None, slots: str, tokens: int, tmp_path: Path
) -> None:
    change = put("sample_from_anchor", stated) if stated is not None else nothing
    source = folder(PAIRS / "dspark-deepspec", tmp_path / "source", change)
    drafter = api.inspect(str(source)).reading.drafter
    assert (drafter.slots, drafter.speculative_tokens) == (slots, tokens)
    assert [item.code for item in api.validate(str(source), verifier=str(VERIFIER)).findings] == []
