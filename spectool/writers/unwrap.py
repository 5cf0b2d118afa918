"""The tensors of an export: what earlier conversions added is taken off, copies are dropped or restored."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spectool.dialects.heads import MARKOV
from spectool.dialects.record import Reading
from spectool.dialects.view import TensorHeader, View
from spectool.errors import UsageError
from spectool.formats.provenance import Provenance
from spectool.formats.verifier import VerifierView
from spectool.tensors.columns import order_of, plan_tensors
from spectool.writers.embedding import NAME as EMBEDDING
from spectool.writers.embedding import of_verifier, scaled_embedding
from spectool.writers.layout import SHARED, Lack, Layout
from spectool.writers.plan import PlannedTensor, Proof, Restore

_NO_LOGIT = "a Markov head of zeros, which changes no logit"


@dataclass(frozen=True, kw_only=True)
class Source:
    """What an export starts from: a folder, its reading and its record, and the verifier as far as it is at hand."""

    view: View
    reading: Reading
    verifier: VerifierView | None
    verifier_tensors: Mapping[str, TensorHeader] | None
    record: Provenance | None


class Working:
    """The drafter and its tensors while what conversions added is taken off."""

    def __init__(self, source: Source) -> None:
        drafter = source.reading.drafter
        tensors, dropped = plan_tensors(source.view, source.reading, order_of(drafter.aux_layers or ()))
        self.source = source
        self.drafter = replace(drafter, aux_layers=tuple(sorted(drafter.aux_layers or ())))
        self.tensors = list(tensors)
        self.dropped = dict(dropped)
        self.restore = {name: Restore("computed") for name in dropped}
        self.proofs: list[Proof] = []
        self.expected: dict[str, str] = {}
        self.notes: list[str] = []
        if drafter.aux_layers != self.drafter.aux_layers:
            self.notes.append("aux layers are sorted, and fc's column blocks with them: vLLM sorts the ids")

    def drop(self, tensor: PlannedTensor, why: str, restore: Restore) -> None:
        """Leave a tensor out, with the reason and where it can be had again."""
        self.tensors.remove(tensor)
        self.dropped[tensor.source] = why
        self.restore[tensor.source] = restore

    def named(self, name: str) -> PlannedTensor | None:
        """Return the tensor of a canonical name."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)


def unwrap_carrier(working: Working) -> None:
    """Take a Markov head of zeros off; without one, DSpark whose slot 0 is given is DFlash."""
    drafter = working.drafter
    if not drafter.headless:
        return
    for tensor in [item for item in working.tensors if item.name in MARKOV]:
        working.drop(tensor, _NO_LOGIT, Restore("zeros"))
    if drafter.method == "dspark":
        method = drafter.method if drafter.slots == "anchor-first" else "dflash"
        working.drafter = replace(drafter, method=method, markov=None)


def settle_embedding(working: Working, *, shipped: bool) -> None:
    """Undo a shipped scaled embedding where the format has a factor for it; ship one where vLLM needs it."""
    record, drafter = working.source.record, working.drafter
    if shipped:
        if drafter.embedding_scale != 1.0:
            made = scaled_embedding(working.source.view, drafter, working.source.verifier_tensors)
            working.tensors.append(made)
            working.drafter = replace(drafter, embedding_scale=1.0)
        return
    made_before = next((item for item in record.tensors if item.name == EMBEDDING), None) if record else None
    tensor = working.named(EMBEDDING)
    if tensor is None or made_before is None or made_before.origin != "verifier" or drafter.method != "dflash":
        return
    # A record is a stranger's word: that the tensor is what it says, the verifier's bytes must show.
    theirs, scale = made_before.source, made_before.scale
    if working.source.verifier_tensors is None:
        raise UsageError(
            f"{working.source.view.name} ships the verifier's embedding times {scale:g}, as its record says; that "
            "it is, the verifier's weights show",
            hint="Give --verifier FOLDER with the verifier's weights.",
        )
    if theirs not in working.source.verifier_tensors or not (math.isfinite(scale) and scale > 0):
        return
    working.proofs.append(Proof(tensor.source, theirs, scale))
    why = f"the verifier's {theirs} times {scale:g}, which an earlier conversion added"
    working.drop(tensor, why, Restore("verifier", theirs, scale))
    working.drafter = replace(drafter, embedding_scale=scale)


def place(working: Working, layout: Layout) -> tuple[list[Lack], list[str]]:
    """Drop the tensors without a place that are copies of the verifier's, restore those that have one again.

    Returns what the layout lacks, and the tensors that cannot be held against the verifier's for want of its weights.
    """
    places, lacks, unproved = re.compile(layout.places), list[Lack](), list[str]()
    verifier, tensors = working.source.verifier, working.source.verifier_tensors
    tied = verifier is not None and verifier.tie_word_embeddings
    size = layout.drafter.dimensions
    for tensor in list(working.tensors):
        if places.fullmatch(tensor.name):
            continue
        what = f"{tensor.dtype} {list(tensor.shape)}"
        if tensor.name not in SHARED or size.draft_vocab_size != size.vocab_size:
            lacks.append(Lack(tensor.name, what, "the layout has no such tensor"))
            continue
        if tensors is None:
            unproved.append(tensor.name)
            continue
        theirs = of_verifier(tensor.name, tensors, tied=tied)
        if theirs is None or tuple(tensors[theirs].shape) != tensor.shape or tensors[theirs].dtype != tensor.dtype:
            lacks.append(Lack(tensor.name, what, "the layout has no such tensor, and it is not the verifier's"))
            continue
        working.proofs.append(Proof(tensor.source, theirs))
        why = f"equal to the verifier's {theirs}; the layout has no place for it"
        working.drop(tensor, why, Restore("verifier", theirs))
    _restore(working, places)
    return lacks, unproved


def _restore(working: Working, places: re.Pattern[str]) -> None:
    """Put back what an earlier conversion dropped as a copy of the verifier's, where the format has a place for it."""
    record, tensors = working.source.record, working.source.verifier_tensors
    for name, item in (record.dropped if record else {}).items():
        if item.origin != "verifier" or item.scale != 1.0 or name not in SHARED or not places.fullmatch(name):
            continue
        if working.named(name) is not None:
            continue
        theirs = None if tensors is None else tensors.get(item.source)
        if theirs is None:
            working.notes.append(f"{name} was dropped on the way here; --verifier FOLDER with weights restores it")
            continue
        planned = PlannedTensor(
            name, theirs.dtype, tuple(theirs.shape), item.source, "the verifier's", origin="verifier"
        )
        working.tensors.append(planned)
        working.expected[name] = item.sha256 or ""
        working.notes.append(f"{name} is restored from the verifier's {item.source}")
