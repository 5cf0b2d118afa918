"""WGT: what the tensors hold. These rules run with `--weights` only; everything else needs no weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectool.drafter.inventory import inventory
from spectool.rules.context import Context
from spectool.rules.registry import Abstain, Hit, rule
from spectool.weights.numbers import FLOATS
from spectool.weights.record import MAX_MAP

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
    "WGT003",
    "vocabulary-map-wrong",
    scope="weights",
    summary="The values of d2t are no offsets from draft ids to the verifier's ids.",
    why=(
        "vLLM adds d2t to the draft's id. With absolute ids, or ids that t2d does not name, it proposes other tokens "
        "than the drafter meant: acceptance near 1, no error."
    ),
    fix="`spectool convert` turns absolute ids into offsets; for anything else ask the publisher for the right map.",
    references=(
        "vLLM 0.33 model_executor/models/llama_eagle3.py compute_logits",
        "Speculators 0.9.0: target = draft + d2t[draft]",
    ),
)
def map_wrong(context: Context) -> Iterator[Hit | Abstain]:
    """Holds d2t against t2d; without t2d, offsets must lead strictly upward inside the vocabulary."""
    proof = context.weights.vocabulary if context.weights is not None else None
    if proof is None:
        return
    source = context.reading.placements.placed["d2t"].source
    if proof.fault is not None:
        yield Hit(proof.fault, key=source)
    elif proof.kind is None:
        yield Abstain(f"a map of at most {MAX_MAP} entries")
    elif proof.kind == "ambiguous":
        yield Abstain("t2d: the values of d2t fit offsets and absolute ids")
    elif proof.kind == "absolute":
        yield Hit("d2t holds the verifier's ids themselves, not offsets", key=source)
    elif proof.kind == "neither":
        where = "outside the vocabulary, or twice, or out of order" if proof.lone else "to other ids than t2d names"
        yield Hit(f"d2t leads {where}", key=source)
    elif proof.zero and proof.lone:
        size = context.drafter.dimensions.draft_vocab_size
        yield Hit(f"d2t is all zero: the draft vocabulary would be the first {size} ids", key=source)


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
