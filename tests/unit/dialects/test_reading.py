"""The trainer's reading, field by field, where somebody could get it wrong."""

from __future__ import annotations

from typing import Any

import drafters
import pytest
from drafters import Size
from readings import trained

from spectool.dialects.catalogue import catalogue, parse_dialect
from spectool.dialects.detect import detect
from spectool.dialects.sources import parse_setting
from spectool.dialects.view import View
from spectool.drafter.model import Attention, Rope
from spectool.errors import QuestionError, RefusedError, SourceError, UsageError


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


def test_gemma_scales_the_embedding_by_a_rounded_root() -> None:
    size = Size(hidden=5376, heads=32, head_dim=168)
    scale = trained(drafters.zlab(size), drafters.verifier(size, model_type="gemma4")).drafter.embedding_scale
    assert scale == 73.5  # sqrt(5376) is 73.32; bfloat16 has 8 bits
    assert trained(drafters.zlab(size), drafters.verifier(size)).drafter.embedding_scale == 1.0


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
