"""DSpark's two heads: rank and type of the Markov head, and whether there is a confidence head."""

from __future__ import annotations

from collections.abc import Mapping

from spectool.dialects.sources import Resolver
from spectool.dialects.view import View
from spectool.drafter.model import ZERO, Confidence, Markov
from spectool.formats.dialect import DialectFile

UNSTATED = "unstated"  # a Markov head whose type the file does not say; rule HED002
MARKOV = ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight")
CONFIDENCE = "confidence_head.proj.weight"
Shapes = Mapping[str, tuple[int, ...]]


def read_heads(
    file: DialectFile, resolver: Resolver, shapes: Shapes, *, zero: bool
) -> tuple[Markov | None, Confidence | None]:
    """Return both heads as trained; None for one the drafter does not have.

    A rank of 0 is DeepSpec's way to say that there is no Markov head. `zero`: the head's weights are known to be zero.
    """
    confidence = None
    if _confidence(file, resolver, shapes):
        confidence = Confidence(resolver.flag("confidence_with_markov", file.read.confidence_with_markov))
    if file.read.markov_rank is None:
        return None, confidence
    rank = resolver.integer("markov_rank", file.read.markov_rank)
    if rank is None and file.read.markov_rank.default == "from-tensors":
        columns = shapes.get(MARKOV[0], ())
        rank = resolver.note("markov_rank", columns[1] if len(columns) == 2 else 0, "tensors")
    if rank is None or rank == 0:
        return None, confidence
    if zero:
        resolver.note("markov", ZERO, "tensors")
        return Markov(ZERO, rank), confidence
    kind = resolver.value("markov_type", file.read.markov_type)
    return Markov(UNSTATED if kind is None else str(kind), rank), confidence


def _confidence(file: DialectFile, resolver: Resolver, shapes: Shapes) -> bool:
    source = file.read.confidence
    if source is not None and source.default == "from-tensors" and resolver.value("confidence", source) is None:
        return bool(resolver.note("confidence", CONFIDENCE in shapes, "tensors"))
    return resolver.flag("confidence", source)


def head_is_zero(view: View, names: Mapping[str, str]) -> bool:
    """Whether the Markov head changes no logit.

    Args:
        view: the folder.
        names: canonical tensor name to the folder's own.

    """
    return all(name in names and view.is_zero(names[name]) for name in MARKOV)
