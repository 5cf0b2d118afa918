"""Write a drafter in a flat layout: what earlier conversions added disappears, what is kept keeps its bytes.

The layout's own dialect file reads the plan before anything is written; a field in which that reading differs from the
drafter is one the format cannot hold.
"""

from __future__ import annotations

from dataclasses import replace

from spectool.dialects.detect import detect
from spectool.dialects.heads import MARKOV
from spectool.dialects.read import read_drafter
from spectool.drafter.compare import LABELS, show, side_by_side
from spectool.drafter.model import TITLES, Drafter
from spectool.errors import RefusedError, SpectoolError, UsageError
from spectool.writers.formats import FORMATS, SPECULATORS, Format
from spectool.writers.layout import DTYPES, Lack, Layout, Subject
from spectool.writers.plan import OutputPlan
from spectool.writers.unwrap import Source, Working, place, settle_embedding, unwrap_carrier

__all__ = ["LackingError", "Source", "export"]


class LackingError(RefusedError):
    """The format has no place for something; `lacks` says for what."""

    def __init__(self, message: str, lacks: tuple[Lack, ...]) -> None:
        super().__init__(message)
        self.lacks = lacks


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
    working = Working(source)
    unwrap_carrier(working)
    method = working.drafter.method
    if method not in chosen.writers:
        stores = " and ".join(TITLES[item] for item in chosen.writers)
        message = f"{chosen.title} files store {stores}; {source.view.name} is {TITLES[method]}"
        raise LackingError(message, (Lack("method", method),))
    settle_embedding(working, shipped=chosen.name == "vllm")
    layout = chosen.writers[method](_subject(working))
    lacks, unproved = place(working, layout)
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


def _subject(working: Working) -> Subject:
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


def _planned(working: Working, layout: Layout, chosen: Format) -> OutputPlan:
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
