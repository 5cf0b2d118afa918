"""VOC: the drafter's vocabulary and its map to the verifier's."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.formats.lookup import MISSING, lookup
from spectool.rules.context import Context
from spectool.rules.registry import Abstain, Hit, rule

_UPDATE = "vLLM 0.33 model_executor/models/{llama_eagle3,qwen3_dflash,qwen3_dspark}.py load_weights"


@rule(
    "VOC001",
    "vocabulary-differs",
    summary="Drafter and verifier do not have the same vocabulary size.",
    why=(
        "vLLM then takes the drafter for one with a reduced vocabulary, or gives it no head: acceptance 0"
        " in one reported case."
    ),
    fix="Use the drafter's own verifier; if only padding differs, set vocab_size to the verifier's.",
    references=("github.com/vllm-project/vllm pull 46435",),
)
def differs(context: Context) -> Iterator[Hit | Abstain]:
    """Compares vocab_size with the verifier's."""
    if context.verifier is None:
        yield Abstain("the verifier's vocabulary (--verifier)")
        return
    ours, theirs = context.drafter.dimensions.vocab_size, context.verifier.vocab_size
    if ours and ours != theirs:
        yield Hit(f"the drafter's vocabulary is {ours}, {context.verifier.name}'s is {theirs}")


@rule(
    "VOC002",
    "vocabulary-map",
    summary="A reduced vocabulary lacks its map d2t.",
    why=(
        "Without it vLLM maps draft ids to the first rows of the verifier's vocabulary: acceptance near "
        "1, no error for most classes."
    ),
    fix="Use the complete checkpoint, d2t included.",
    references=(_UPDATE, "github.com/NVIDIA-NeMo/Automodel pull 2447"),
)
def map_missing(context: Context) -> Iterator[Hit]:
    """Fires when the draft vocabulary is smaller and there is no map."""
    size = context.drafter.dimensions
    if not context.sized:
        return
    if size.draft_vocab_size < size.vocab_size and "d2t" not in context.shapes:
        yield Hit(f"draft_vocab_size is {size.draft_vocab_size} of {size.vocab_size}, and there is no tensor d2t")
    elif size.draft_vocab_size > size.vocab_size:
        yield Hit(
            f"draft_vocab_size {size.draft_vocab_size} is larger than the vocabulary of {size.vocab_size}",
            "Correct vocab_size (the verifier's) or draft_vocab_size (the rows of the drafter's own head).",
        )


@rule(
    "VOC003",
    "vocabulary-map-superfluous",
    scope="engine",
    summary="A full vocabulary carries a map d2t.",
    why="vLLM then has no parameter for it and refuses the file.",
    fix="Remove d2t and t2d; `spectool convert` does.",
    references=(_UPDATE,),
)
def map_superfluous(context: Context) -> Iterator[Hit]:
    """Fires when the vocabularies are equal and d2t is there."""
    size = context.drafter.dimensions
    if context.method == "peagle" and "eagle_conditional_map" not in context.facts.features:
        return  # releases before 0.30 always have the parameter, and a map of zeros changes nothing
    if size.draft_vocab_size != size.vocab_size or "d2t" not in context.shapes:
        return
    entries = context.shapes["d2t"]
    if len(entries) == 1 and entries[0] < size.vocab_size:
        stated = "is missing" if lookup(context.view.config, "draft_vocab_size") is MISSING else "says so"
        yield Hit(
            f"draft_vocab_size {stated}, so vLLM takes the vocabulary for full ({size.vocab_size}), "
            f"and d2t has {entries[0]} entries",
            f"Write `draft_vocab_size: {entries[0]}`.",
        )
    else:
        yield Hit(f"the vocabulary is full ({size.vocab_size}), and d2t is in the file")


@rule(
    "VOC004",
    "vocabulary-map-wrong",
    scope="engine",
    summary="The values of d2t are no offsets from draft ids to the verifier's ids.",
    why=(
        "vLLM adds d2t to the draft's id. With absolute ids, or ids that t2d does not name, it proposes other tokens "
        "than the drafter meant: acceptance near 1, no error; beyond the vocabulary it stops at the first draft."
    ),
    fix="`spectool convert` turns absolute ids into offsets; for anything else ask the publisher for the right map.",
    references=(
        "vLLM 0.33 model_executor/models/llama_eagle3.py compute_logits",
        "Speculators 0.9.0: target = draft + d2t[draft]",
    ),
)
def map_wrong(context: Context) -> Iterator[Hit | Abstain]:
    """Holds d2t against t2d; without t2d, offsets must lead strictly upward inside the vocabulary.

    The map is small and read without --weights as well: nothing else of a reduced vocabulary shows in a header.
    """
    if "d2t" not in context.shapes:
        return
    from spectool.tensors.vocabulary import MAX_MAP, map_proof  # noqa: PLC0415 - with a map only: start-up stays quick

    proof = map_proof(context.view, context.reading)
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
