"""WGT: what the tensors hold. These rules run with `--weights` only; everything else needs no weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectool.drafter.inventory import inventory
from spectool.rules.context import Context
from spectool.rules.registry import Abstain, Hit, rule
from spectool.weights.numbers import FLOATS

_SHOWN = 5
_MARKOV = ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight")


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


@rule(
    "WGT001",
    "weights-not-finite",
    scope="weights",
    summary="A tensor holds NaN or infinity.",
    why="Every draft that touches the value is lost; vLLM loads it without a word and accepts nothing.",
    fix="Take an earlier checkpoint of the training, or download the file again if its digest is not the publisher's.",
    references=("IEEE 754; OCP 8-bit floating point for F8 dtypes",),
)
def not_finite(context: Context) -> Iterator[Hit]:
    """Looks at every value of every float tensor."""
    if context.weights is None:
        return
    found = {name: scan.odd for name, scan in context.weights.scans.items() if scan.odd is not None}
    if found:
        said = [f"{name} has {kind} at {_at(context, name, place)}" for name, (place, kind) in found.items()]
        yield Hit(_some(said), key=next(iter(found)))


def _at(context: Context, name: str, place: int) -> str:
    """Return the indices of a value: `[row, column]`."""
    header = context.view.tensors[name]
    indices = []
    if header.dtype == "C64":
        place //= 2
    for length in reversed(header.shape):
        indices.append(place % length)
        place //= length
    return str(indices[::-1])


@rule(
    "WGT002",
    "weights-all-zero",
    scope="weights",
    summary="A tensor that is trained holds nothing but zeros.",
    why="It was exported before it was filled, or never trained; what should pass through it is lost.",
    fix="Use the complete checkpoint.",
    references=("spectool/drafter/inventory.py",),
)
def all_zero(context: Context) -> Iterator[Hit]:
    """Looks at the drafter's own float tensors.

    Biases and sinks may be zero. So may a whole Markov head that nothing but drafting reads: that is how DSpark carries
    a drafter without one.
    """
    weights = context.weights
    if weights is None:
        return
    placed = context.reading.placements.placed
    zero = [
        (name, placed[name].source)
        for name in inventory(context.drafter)
        if name in placed
        and not name.endswith("bias")
        and context.view.tensors[placed[name].source].dtype in FLOATS
        and weights.scans[placed[name].source].zero
    ]
    if context.drafter.confidence is None and {name for name, _ in zero} >= set(_MARKOV):
        zero = [item for item in zero if item[0] not in _MARKOV]
    if zero:
        yield Hit(f"nothing but zeros: {_some([source for _, source in zero])}", key=zero[0][1])


@rule(
    "WGT004",
    "mask-row-empty",
    scope="weights",
    summary="The mask token's row of the embedding is all zero, or holds NaN or infinity.",
    why=(
        "Every slot to be predicted starts from this row. A row that the trainer did not use, such as the padding of a "
        "table, says nothing to the drafter."
    ),
    fix="Check mask_token_id against the publisher's; use the verifier or checkpoint the drafter was trained with.",
    references=("vLLM 0.33 v1/worker/gpu/spec_decode/utils.py get_parallel_drafting_token_id",),
)
def mask_row_empty(context: Context) -> Iterator[Hit | Abstain]:
    """Looks at the drafter's embedding, or at the verifier's where the drafter borrows it."""
    mask = context.weights.mask if context.weights is not None else None
    if mask is None:
        return
    if mask.scan is None:
        yield Abstain(mask.missing or "the embedding")
        return
    what = "all zero" if mask.scan.zero else f"not finite ({mask.scan.odd[1]})" if mask.scan.odd else ""
    if what:
        owner = "the drafter's" if mask.owner == "drafter" else "the verifier's"
        # The verifier's tensors are in no file of the drafter: the finding stands at the id.
        stated = context.reading.evidence.get("mask_token_id")
        key = mask.tensor if mask.owner == "drafter" else stated.where if stated is not None else None
        yield Hit(f"row {mask.token} of {owner} embedding ({mask.tensor}) is {what}", key=key)


@rule(
    "WGT005",
    "own-copy-differs",
    severity="note",
    scope="weights",
    methods=("dflash", "dspark"),
    summary="The drafter ships an embedding or head that is not the verifier's.",
    why=(
        "DFlash and DSpark are trained on the verifier's own. vLLM shares a copy that is equal bit by bit; one that "
        "differs is kept, takes memory of its own, and may mean that the drafter was trained for another verifier."
    ),
    fix="Check that the drafter was trained for this verifier. A scaled embedding, as for Gemma, is meant so.",
    references=("vLLM 0.33 v1/worker/gpu/spec_decode/eagle/utils.py _should_share",),
)
def own_copy_differs(context: Context) -> Iterator[Hit | Abstain]:
    """Compares byte by byte tensors of the same shape."""
    if context.weights is None:
        return
    for item in context.weights.copies.values():
        if item.equal is None:
            yield Abstain(item.missing or "the verifier's weights")
        elif not item.equal:
            message = f"{item.source} differs from the verifier's {item.theirs}: kept, and takes {item.nbytes} bytes"
            yield Hit(message, key=item.source)
