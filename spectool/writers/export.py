"""Write a drafter in a flat layout: what earlier conversions added disappears, what is kept keeps its bytes.

The layout's own dialect file reads the plan before anything is written; a field in which that reading differs from the
drafter is one the format cannot hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spectool.dialects.detect import detect
from spectool.dialects.heads import MARKOV
from spectool.dialects.read import read_drafter
from spectool.dialects.record import Reading
from spectool.dialects.view import TensorHeader, View
from spectool.drafter.compare import LABELS, show, side_by_side
from spectool.drafter.model import TITLES, Drafter
from spectool.errors import RefusedError, SpectoolError, UsageError
from spectool.formats.provenance import Provenance
from spectool.formats.verifier import VerifierView
from spectool.tensors.columns import order_of, plan_tensors
from spectool.writers.embedding import NAME as EMBEDDING
from spectool.writers.embedding import of_verifier, scaled_embedding
from spectool.writers.formats import FORMATS, SPECULATORS, Format
from spectool.writers.layout import DTYPES, SHARED, Lack, Layout, Subject
from spectool.writers.plan import OutputPlan, PlannedTensor, Proof, Restore

_NO_LOGIT = "a Markov head of zeros, which changes no logit"


@dataclass(frozen=True, kw_only=True)
class Source:
    """What an export starts from: a folder, its reading and its record, and the verifier as far as it is at hand."""

    view: View
    reading: Reading
    verifier: VerifierView | None
    verifier_tensors: Mapping[str, TensorHeader] | None
    record: Provenance | None


class LackingError(RefusedError):
    """The format has no place for something; `lacks` says for what."""

    def __init__(self, message: str, lacks: tuple[Lack, ...]) -> None:
        super().__init__(message)
        self.lacks = lacks


class _Working:
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


def export(source: Source, name: str) -> OutputPlan:
    """Plan a folder in a flat format.

    Args:
        source: what is written.
        name: a key of `FORMATS`, not `speculators`.

    Raises:
        LackingError: the format cannot hold the drafter exactly; fields, values and formats that can are named.
        UsageError: a tensor has to be proved a copy of the verifier's, whose weights are not at hand.

    """
    try:
        return _export(source, FORMATS[name])
    except LackingError as error:
        holders = [other for other in FORMATS if other != name and _holds(source, other)]
        error.hint = f"Exact in: {', '.join(holders)}." if holders else "No format spectool writes holds it exactly."
        raise


def _holds(source: Source, name: str) -> bool:
    try:
        if name == SPECULATORS:
            from spectool.writers.speculators import write_speculators  # noqa: PLC0415 - for a refusal's hint only

            write_speculators(
                source.view,
                source.reading,
                verifier=source.verifier,
                verifier_name="",
                verifier_tensors=source.verifier_tensors,
            )
        else:
            _export(source, FORMATS[name])
    except SpectoolError:  # among them the wish for weights, without which it is not known
        return False
    return True


def _export(source: Source, chosen: Format) -> OutputPlan:
    working = _Working(source)
    _unwrap_carrier(working)
    method = working.drafter.method
    if method not in chosen.writers:
        stores = " and ".join(TITLES[item] for item in chosen.writers)
        message = f"{chosen.title} files store {stores}; {source.view.name} is {TITLES[method]}"
        raise LackingError(message, (Lack("method", method),))
    _settle_embedding(working, chosen)
    layout = chosen.writers[method](_subject(working))
    lacks, unproved = _place(working, layout)
    _require(chosen, source, [*layout.lacks, *lacks])
    if unproved:
        raise UsageError(
            f"{chosen.title} files have no place for {' and '.join(unproved)}; whether they are copies of the "
            "verifier's, its weights show",
            hint="Give --verifier FOLDER with the verifier's weights.",
        )
    plan = _planned(working, layout, chosen)
    _require(chosen, source, _read_otherwise(plan, layout, source))
    return plan


def _require(chosen: Format, source: Source, lacks: list[Lack]) -> None:
    if lacks:
        parts = [_says(lack) for lack in lacks]
        raise LackingError(f"{chosen.title} files cannot hold {source.view.name}: {'; '.join(parts)}", tuple(lacks))


def _says(lack: Lack) -> str:
    text = f"{LABELS.get(lack.field, lack.field)} {show(lack.value)}"
    return f"{text} ({lack.why})" if lack.why else text


def _unwrap_carrier(working: _Working) -> None:
    """Take a Markov head of zeros off; without one, DSpark whose slot 0 is given is DFlash."""
    drafter = working.drafter
    if not drafter.headless:
        return
    for tensor in [item for item in working.tensors if item.name in MARKOV]:
        working.drop(tensor, _NO_LOGIT, Restore("zeros"))
    if drafter.method == "dspark":
        method = drafter.method if drafter.slots == "anchor-first" else "dflash"
        working.drafter = replace(drafter, method=method, markov=None)


def _settle_embedding(working: _Working, chosen: Format) -> None:
    """Undo a shipped scaled embedding where the format has a factor for it; ship one where vLLM needs it."""
    record, drafter = working.source.record, working.drafter
    if chosen.name == "vllm":
        if drafter.embedding_scale != 1.0:
            made = scaled_embedding(working.source.view, drafter, working.source.verifier_tensors)
            working.tensors.append(made)
            working.drafter = replace(drafter, embedding_scale=1.0)
        return
    made_before = next((item for item in record.tensors if item.name == EMBEDDING), None) if record else None
    tensor = working.named(EMBEDDING)
    if tensor is None or made_before is None or made_before.origin != "verifier" or drafter.method != "dflash":
        return
    working.proofs.append(Proof(tensor.source, sha256=made_before.sha256))
    why = f"the verifier's embedding times {made_before.scale:g}, which an earlier conversion added"
    working.drop(tensor, why, Restore("verifier", made_before.source, made_before.scale))
    working.drafter = replace(drafter, embedding_scale=made_before.scale)


def _subject(working: _Working) -> Subject:
    floats = [item.dtype for item in working.tensors if item.dtype in DTYPES]
    source = working.source
    layers = source.verifier.num_hidden_layers if source.verifier else source.reading.verifier_layers
    return Subject(
        name=source.view.name,
        view=source.view,
        drafter=working.drafter,
        dtype=max(sorted(set(floats)), key=floats.count) if floats else "BF16",
        verifier=source.verifier,
        verifier_layers=layers,
        tensors=frozenset(item.name for item in working.tensors),
    )


def _place(working: _Working, layout: Layout) -> tuple[list[Lack], list[str]]:
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
        working.proofs.append(Proof(tensor.source, copy_of=theirs))
        why = f"equal to the verifier's {theirs}; the layout has no place for it"
        working.drop(tensor, why, Restore("verifier", theirs))
    _restore(working, places)
    return lacks, unproved


def _restore(working: _Working, places: re.Pattern[str]) -> None:
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


def _planned(working: _Working, layout: Layout, chosen: Format) -> OutputPlan:
    view, drafter = working.source.view, layout.drafter
    zeros = {item.name for item in working.tensors if item.name in MARKOV and view.is_zero(item.source)}
    tensors = [*working.tensors, *layout.added]
    settled = dict(layout.settled)
    notes = [*working.notes, *layout.notes]
    if drafter.most_tokens is not None and drafter.speculative_tokens != drafter.most_tokens:
        settled["speculative_tokens"] = drafter.speculative_tokens
        notes.append(f"the layout stores no K: serve it with {drafter.speculative_tokens}, not {drafter.most_tokens}")
    return OutputPlan(
        drafter=drafter,
        config=dict(sorted(layout.config.items())),
        tensors=tuple(
            sorted((replace(item, name=layout.rename(item.name)) for item in tensors), key=lambda item: item.name)
        ),
        dropped=working.dropped,
        settled=settled,
        notes=tuple(notes),
        format=chosen.name,
        restore=working.restore,
        proofs=tuple(working.proofs),
        expected={layout.rename(name): digest for name, digest in working.expected.items()},
        known_zeros=frozenset(map(layout.rename, zeros)),
    )


def _read_otherwise(plan: OutputPlan, layout: Layout, source: Source) -> list[Lack]:
    """Read the plan with its own dialect file; return the fields in which that differs from the drafter."""
    view = plan.view(source.view.name)
    dialect = detect(view)
    if dialect.file.dialect != layout.dialect:
        raise AssertionError(f"{plan.format}: written for {layout.dialect}, read as {dialect.file.dialect}")
    again = read_drafter(view, dialect, verifier=source.verifier, settings=plan.settled)
    lacks = [Lack(gap.field, None, gap.detail) for gap in again.gaps]
    lacks += [Lack(question.key, None, question.why) for question in again.questions]
    trained, found = layout.drafter, again.drafter
    lacks += [_lack_of(row.field, trained) for row in side_by_side(trained, found) if not row.equal]
    fields = ("block_size", "speculative_tokens")
    lacks += [_lack_of(name, trained) for name in fields if getattr(trained, name) != getattr(found, name)]
    return lacks


def _lack_of(name: str, drafter: Drafter) -> Lack:
    return Lack(name, getattr(drafter, name), "it would be read otherwise")
