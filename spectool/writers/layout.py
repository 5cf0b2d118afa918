"""What the writers of flat layouts share: the subject, the layout they make of it, and what it lacks.

A flat layout has the decoder's keys at the top of `config.json`, as transformers' own configurations do, and the
method's keys beside them or in `dflash_config`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spectool.dialects.view import View
from spectool.drafter.model import Drafter
from spectool.formats.verifier import VerifierView
from spectool.writers.decoder import transformer_layer
from spectool.writers.plan import PlannedTensor

DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
BLOCK_TENSORS = r"layers\.\d+\..+|(fc|hidden_norm|norm)\.weight"
HEAD_TENSORS = r"markov_head\.markov_w[12]\.weight|confidence_head\.proj\.(weight|bias)"
SHARED = ("embed_tokens.weight", "lm_head.weight")


@dataclass(frozen=True, slots=True)
class Lack:
    """A field that a format cannot hold with this value, and why."""

    field: str
    value: object
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A drafter to be written: no carrier, aux layers ascending. `tensors` are the canonical names at hand."""

    name: str
    view: View
    drafter: Drafter
    dtype: str
    verifier: VerifierView | None
    verifier_layers: int | None
    tensors: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A writer's answer.

    `dialect` is the dialect file that reads it; `drafter` the drafter as it stands in it; `places` a pattern of the
    canonical tensor names it has a place for, `rename` their names in it; `added` tensors that no source has.
    """

    dialect: str
    drafter: Drafter
    config: Mapping[str, Any]
    places: str
    lacks: tuple[Lack, ...] = ()
    rename: Callable[[str], str] = str
    added: tuple[PlannedTensor, ...] = ()
    settled: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def flat_decoder(subject: Subject) -> dict[str, Any]:
    """Return the decoder's keys, in both generations of names: readers of either exist for every layout."""
    flat, _ = transformer_layer(subject.drafter, subject.verifier, subject.view)
    rope = flat["rope_parameters"]
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    flat |= {"rope_theta": rope["rope_theta"], "rope_scaling": None if scaling == {"rope_type": "default"} else scaling}
    flat |= {"dtype": DTYPES[subject.dtype], "torch_dtype": DTYPES[subject.dtype]}
    if flat.get("is_neox_style") is False:
        flat["rope_is_neox_style"] = False  # SGLang's name for it
    if subject.verifier_layers is not None:
        flat["num_target_layers"] = subject.verifier_layers
    return flat


def output_ids(drafter: Drafter) -> list[int]:
    """Return the aux layers as output ids: t for "after layer t", -1 for the embedding."""
    return [item - 1 for item in drafter.aux_layers or ()]


def causal_by_kind(drafter: Drafter) -> bool:
    """Whether sliding layers are causal and full ones are not, which flat block layouts mean when they say nothing."""
    return all(item.causal == (item.window is not None) for item in drafter.attention)


def one_causality(drafter: Drafter) -> bool | None:
    """Return the causality that all layers share; None where they differ."""
    found = {item.causal for item in drafter.attention}
    return found.pop() if len(found) == 1 else None


def attention_lacks(drafter: Drafter, *, flag: bool) -> list[Lack]:
    """Return what of the attention a flat layout cannot say; `flag`: it has one causality flag for all layers."""
    if len({item.window for item in drafter.attention} - {None}) > 1:
        return [Lack("attention", drafter.attention, "it has one window for all sliding layers")]
    if not causal_by_kind(drafter) and not (flag and one_causality(drafter) is not None):
        why = "one flag for all layers" if flag else "no causality flag"
        return [Lack("attention", drafter.attention, f"it has {why}: sliding layers are causal and full ones are not")]
    return []


def lacks_of(drafter: Drafter, **only: object) -> list[Lack]:
    """Return the fields whose value differs from the one value that a format has for them."""
    return [Lack(name, getattr(drafter, name)) for name, value in only.items() if getattr(drafter, name) != value]


def size_lacks(drafter: Drafter) -> list[Lack]:
    """Return what most flat layouts cannot say of sizes: a reduced vocabulary, a target of another width."""
    size, lacks = drafter.dimensions, []
    if size.draft_vocab_size != size.vocab_size:
        lacks.append(Lack("draft_vocab_size", size.draft_vocab_size, "it has no map of a reduced vocabulary"))
    if size.target_hidden_size != size.hidden_size:
        lacks.append(Lack("target_hidden_size", size.target_hidden_size, "it takes the drafter's own width for it"))
    return lacks
