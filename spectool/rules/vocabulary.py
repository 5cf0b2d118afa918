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
