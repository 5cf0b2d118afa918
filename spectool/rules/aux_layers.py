"""AUX: which verifier layers feed the drafter, and the width of `fc`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spectool.rules.context import Context
from spectool.rules.helpers import differs, engine_refuses
from spectool.rules.quantisation import belongs
from spectool.rules.registry import Abstain, Hit, rule
from spectool.tensors.quantised import quantised_modules

# What vLLM's Llama class builds fc for unless told (model_executor/models/llama_eagle3.py).
_LLAMA_AUX = 3
_UTILS = "vLLM 0.33 v1/worker/gpu/spec_decode/eagle/eagle3_utils.py"


@rule(
    "AUX001",
    "aux-layer-out-of-range",
    summary="An aux layer does not exist in the verifier.",
    why="vLLM captures fewer hidden states than fc expects; the error comes at the first forward pass, or later.",
    fix="Serve the drafter with the verifier it was trained for.",
    references=("github.com/vllm-project/vllm pull 48113", _UTILS),
)
def out_of_range(context: Context) -> Iterator[Hit | Abstain]:
    """Input ids run from 0 (embedding) to the number of layers (output of the last)."""
    if context.verifier is None:
        yield Abstain("the verifier's number of layers (--verifier)")
        return
    layers = context.verifier.num_hidden_layers
    bad = [layer for layer in context.drafter.aux_layers or () if not 0 <= layer <= layers]
    if bad:
        names = ", ".join(f"{layer} (output of layer {layer - 1})" for layer in bad)
        yield Hit(f"aux layer {names} does not exist: {context.verifier.name} has layers 0 to {layers - 1}")


@rule(
    "AUX002",
    "aux-layers-missing",
    summary="The aux layers are missing or no list of layer ids.",
    why=(
        "They are chosen at training time and cannot be recomputed; readers that fill them in by formula "
        "are mostly wrong."
    ),
    fix="Ask the drafter's publisher for target_layer_ids, and write them.",
    references=("github.com/z-lab/dflash issue 156", "github.com/vllm-project/vllm pull 50170"),
)
def missing(context: Context) -> Iterator[Hit]:
    """Fires when neither the file nor a convention says."""
    gaps = context.gaps("aux_layers")
    for gap in gaps:
        yield Hit(gap.detail)
    if not gaps:
        yield from engine_refuses(context, "AUX002")


@rule(
    "AUX003",
    "aux-layer-doubled",
    summary="An aux layer is named twice.",
    why="vLLM captures each layer once, so fc receives fewer hidden states than it was trained on.",
    fix="Correct the list of aux layers.",
    references=("vLLM 0.33 model_executor/models/interfaces.py set_aux_hidden_state_layers",),
)
def doubled(context: Context) -> Iterator[Hit]:
    """Fires for any repeated id."""
    layers = context.drafter.aux_layers or ()
    twice = sorted({layer for layer in layers if layers.count(layer) > 1})
    if twice:
        yield Hit(
            f"aux layer {', '.join(map(str, twice))} (input id) stands more than once in the list of {len(layers)}"
        )


@rule(
    "AUX004",
    "fc-width",
    summary="fc does not read as many hidden states as there are aux layers.",
    why=(
        "The number of aux layers or their width is not the one the drafter was trained with; vLLM fails "
        "at load or forward."
    ),
    fix="Correct the list of aux layers, or write target_hidden_size if the verifier is wider than the drafter.",
    references=("github.com/vllm-project/vllm issue 54526", _UTILS),
)
def fc_width(context: Context) -> Iterator[Hit]:
    """Compares fc's columns with aux layers x width of a hidden state."""
    shape = context.shapes.get("fc.weight", ())
    layers = context.drafter.aux_layers
    packed = belongs("fc.weight", quantised_modules(context.view))  # its columns are no values
    if len(shape) == 2 and layers is not None and not packed:
        width, target = shape[1], context.drafter.dimensions.target_hidden_size
        if width != len(layers) * target:
            each = width // len(layers) if layers and width % len(layers) == 0 else None
            yield Hit(
                f"fc.weight reads {width} values, {len(layers)} aux layers of {target} give {len(layers) * target}",
                f"Correct the list of aux layers, or write target_hidden_size: {each} if the verifier is so wide."
                if each is not None
                else None,
            )
            return
    for hit in engine_refuses(context, "AUX004"):
        yield replace(hit, fix=_as_trained(context) if shape and layers and not packed else None)


def _as_trained(context: Context) -> str | None:
    """Return what vLLM has to be told where the file itself is right: it goes by keys, not by fc."""
    size, layers = context.drafter.dimensions, context.drafter.aux_layers or ()
    place = " inside transformer_layer_config" if "transformer_layer_config" in context.view.config else ""
    keys = []
    if size.target_hidden_size != size.hidden_size and context.view.config.get("target_hidden_size") is None:
        keys.append(f"`target_hidden_size: {size.target_hidden_size}`")
    if context.method == "peagle" and not context.drafter.qk_norm and len(layers) != _LLAMA_AUX:
        keys.append(f"`num_aux_hidden_states: {len(layers)}`{place}")
    return f"Write {' and '.join(keys)}." if keys else None


@rule(
    "AUX006",
    "aux-layer-is-the-last",
    severity="note",
    scope="engine",
    summary="An aux layer is the output of the verifier's last layer, which trainers see in two forms.",
    why=(
        "vLLM hands out the state before the verifier's final norm. A trainer that took the last of transformers' "
        "hidden states had it after the norm: the drafter then reads other values, without an error."
    ),
    fix="Ask which one the drafter was trained on; the final norm cannot be put into fc exactly.",
    references=("vLLM 0.33 model_executor/models/qwen2.py", "transformers: hidden_states[-1] is normed"),
)
def last(context: Context) -> Iterator[Hit]:
    """Fires for the highest id there is."""
    if context.verifier is None:
        return
    layers = context.verifier.num_hidden_layers
    if layers in (context.drafter.aux_layers or ()):
        yield Hit(f"aux layer {layers} is the output of {context.verifier.name}'s last layer, before its final norm")


@rule(
    "AUX005",
    "aux-layers-differ",
    scope="engine",
    summary="vLLM would feed other aux layers, or feed them in another order.",
    why=(
        "It sorts the ids; fc's column blocks keep the file's order. Off by one or permuted, acceptance "
        "drops in silence."
    ),
    fix="Convert the folder with `spectool convert`: it sorts the ids and moves fc's column blocks with them.",
    references=(_UTILS, "vLLM 0.32 run: config [4, 0, 2] accepts 1.878 where [0, 2, 4] accepts 1.927"),
)
def differ(context: Context) -> Iterator[Hit]:
    """Fires on any difference that no refusal explains."""
    layers = context.drafter.aux_layers or ()
    if len(set(layers)) == len(layers):
        yield from differs(context, "aux_layers", "the aux layers are not read as they were trained")
