"""Short ways to an export: from a fixture's folder, or from the Speculators folder planned of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dialect_fixtures import ALL, Fixture, zlab
from drafters import Spec

from spectool.dialects.detect import detect
from spectool.dialects.read import read_drafter
from spectool.writers.export import Source
from spectool.writers.plan import OutputPlan
from spectool.writers.speculators import write_speculators


def source_of(item: Fixture) -> Source:
    """What an export of the fixture starts from."""
    return Source(
        view=item.view,
        reading=read_drafter(item.view, detect(item.view), verifier=item.verifier, settings=item.settings),
        verifier=item.verifier,
        verifier_tensors=item.verifier_tensors,
        record=None,
    )


def speculators_of(item: Fixture) -> OutputPlan:
    """The Speculators folder planned of a fixture."""
    return write_speculators(
        item.view,
        source_of(item).reading,
        verifier=item.verifier,
        verifier_name="org/verifier",
        verifier_tensors=item.verifier_tensors,
    )


def converted(item: Fixture) -> Fixture:
    """That folder, as a fixture."""
    plan = speculators_of(item)
    return replace(item, view=plan.view(item.view.name), settings=dict(plan.settled))


def _own(**keys: Any) -> Fixture:
    def change(config: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
        config["dflash_config"] |= keys

    return replace(ALL["dflash-zlab-early"], view=zlab("own", change))


def _reduced(name: str) -> Fixture:
    """A Speculators folder with a vocabulary of 64 of 128."""
    item = converted(ALL[name])
    rows = {"lm_head.weight": (64, 32), "d2t": (64,), "t2d": (128,), "markov_head.markov_w2.weight": (64, 4)}
    dtypes = {"d2t": "I64", "t2d": "BOOL"}
    kept = {key: tensor for key, tensor in item.view.tensors.items() if key not in rows}
    added = {
        key: Spec(dtypes.get(key, "BF16"), rows[key]) for key in rows if "markov" not in key or key in item.view.tensors
    }
    view = replace(item.view, config={**item.view.config, "draft_vocab_size": 64}, tensors={**kept, **added})
    return replace(item, view=view)


def _tall(name: str, **size: Any) -> Fixture:
    return replace(ALL["dflash-zlab-early"], view=zlab(name, **size))


# What somebody may want to keep -> a drafter that has it. The table of docs/export.md has one line for each.
WANTED: dict[str, Fixture] = {
    "DFlash": ALL["dflash-zlab-early"],
    "DFlash, causal sliding beside bidirectional full layers": ALL["dflash-zlab-mixed"],
    "DFlash, all layers causal": _own(causal=True),
    "DFlash, biases and yarn": ALL["dflash-zlab-gptoss"],
    "DFlash, interleaved rope": _tall("interleaved", extra={"is_neox_style": False}),
    "DFlash, part of each head rotated": replace(
        _tall("partial", extra={"partial_rotary_factor": 0.5}), settings={"rope.partial": 0.5}
    ),
    "DFlash, factor on the embedding (gemma)": replace(
        ALL["dflash-zlab-gemma"], verifier_tensors={"model.embed_tokens.weight": Spec("BF16", (128, 32))}
    ),
    "DFlash, factor on the logits": _own(output_multiplier=0.5),
    "DFlash, attention sinks": ALL["dflash-modelopt"],
    "DFlash, value scale": ALL["dflash-mimo"],
    "DFlash, a row for the mask token in a file beside the weights": ALL["dflash-mimo-mask"],
    "DFlash, embedding of its own": ALL["dflash-nemotron"],
    "DFlash, aux layer 0 (the embedding)": _tall("embedding", taps=(0, 3, 5)),
    "DFlash, reduced vocabulary": _reduced("dflash-zlab-early"),
    "DSpark": ALL["dspark-deepspec-community"],
    "DSpark, embedding and head of its own": ALL["dspark-deepspec"],
    "DSpark, aux layer 0 (the embedding)": replace(
        ALL["dspark-specforge"],
        view=replace(
            ALL["dspark-specforge"].view,
            config={
                **ALL["dspark-specforge"].view.config,
                "dflash_config": {
                    **ALL["dspark-specforge"].view.config["dflash_config"],
                    "target_layer_ids": [-1, 2, 4],
                },
            },
        ),
    ),
    "DSpark, no Markov head": replace(
        ALL["dspark-deepspec-dflash"],
        view=replace(
            ALL["dspark-deepspec-dflash"].view,
            tensors={
                key: spec
                for key, spec in ALL["dspark-deepspec-dflash"].view.tensors.items()
                if key not in {"embed_tokens.weight", "lm_head.weight"}
            },
        ),
    ),
    "DSpark, slot 0 given": ALL["dspark-labelled"],
    "DSpark, slot 0 given, sinks": ALL["dspark-nemotron"],
    "DSpark, yarn": ALL["dspark-specforge"],
    "DSpark, interleaved rope": ALL["dspark-lfm2"],
    "DSpark, reduced vocabulary": _reduced("dspark-deepspec-community"),
    "P-EAGLE": ALL["peagle-vllm"],
    "P-EAGLE, q/k norms": ALL["peagle-vllm-qwen3"],
    "P-EAGLE, other than three aux layers": ALL["peagle-vllm-four"],
    "P-EAGLE, biases": ALL["peagle-nemo"],
}
