"""Drafters of random sizes in the layouts that property tests start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import drafters
from drafters import Size, Spec
from hypothesis import strategies as st

from spectool.dialects.view import View

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 5e5}


@st.composite
def sizes(draw: st.DrawFn) -> Size:
    """Sizes of drafters that load: heads divide, aux layers exist, the mask is a row."""
    depth = draw(st.integers(4, 40))
    vocab = draw(st.sampled_from([128, 500]))
    layers = draw(st.integers(1, 4))
    extra: dict[str, object] = {}
    if draw(st.booleans()):
        extra["rope_parameters"] = YARN
    if draw(st.booleans()):
        kinds = st.sampled_from(["sliding_attention", "full_attention"])
        types = draw(st.lists(kinds, min_size=layers, max_size=layers))
        extra |= {"layer_types": types, "sliding_window": 64, "use_sliding_window": True}
    return Size(
        layers=layers,
        hidden=draw(st.sampled_from([32, 48])),
        heads=draw(st.sampled_from([2, 4])),
        kv_heads=draw(st.sampled_from([1, 2])),
        head_dim=draw(st.sampled_from([8, 16])),
        vocab=vocab,
        draft_vocab=vocab,
        depth=depth,
        taps=tuple(draw(st.lists(st.integers(0, depth), min_size=1, max_size=5, unique=True))),
        block=draw(st.integers(2, 16)),
        mask=draw(st.integers(0, vocab - 1)),
        rank=draw(st.sampled_from([1, 16])),
        theta=draw(st.sampled_from([1e4, 1e6, 1e7])),
        extra=extra,
        biases=draw(st.booleans()),
        fc_norm=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        confidence=draw(st.booleans()),
        with_markov=draw(st.booleans()),
    )


def headless(size: Size) -> View:
    """DeepSpec's DFlash: DSpark's layout without its heads."""
    view = drafters.deepspec(replace(size, confidence=False), markov_rank=0, markov_head_type=None)
    tensors = {name: spec for name, spec in view.tensors.items() if "markov" not in name}
    return View("headless", view.config, tensors)


def mimo(size: Size) -> View:
    """Values scaled, sinks: what only a carrier holds."""
    return with_own(size, attention_value_scale=0.612)


def modelopt(size: Size) -> View:
    """One window for all layers, sinks."""
    return with_own(size, use_swa=True, swa_window_size=32)


def with_own(size: Size, **own: object) -> View:
    view = drafters.zlab(size)
    config = {**view.config, "dflash_config": {**view.config["dflash_config"], "attention_sink_bias": True, **own}}
    sinks = {
        f"layers.{layer}.self_attn.attention_sink_bias": Spec("BF16", (size.heads,)) for layer in range(size.layers)
    }
    return View("sinks", config, {**view.tensors, **sinks})


def bonus(size: Size) -> View:
    """DSpark with slot 0 given, as Nemotron stores it."""
    return drafters.deepspec(size, dspark_bonus_anchor=True, sample_from_anchor=False)


MAKERS: dict[str, Callable[[Size], View]] = {
    "dflash": drafters.zlab,
    "dspark": drafters.deepspec,
    "peagle": drafters.peagle,
    "headless": headless,
    "mimo": mimo,
    "modelopt": modelopt,
    "bonus": bonus,
}
