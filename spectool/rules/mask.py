"""MSK: the token that stands in the slots to be predicted."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.dialects.side_files import unread
from spectool.rules.context import Context
from spectool.rules.helpers import differs, engine_refuses
from spectool.rules.registry import Abstain, Hit, rule

_TOKEN = "vLLM 0.33 v1/worker/gpu/spec_decode/utils.py get_parallel_drafting_token_id"  # noqa: S105 - no password


@rule(
    "MSK001",
    "mask-token-missing",
    summary="The mask token is missing, or stated twice with different ids.",
    why="It is chosen at training time; a tokenizer's own mask token need not be the one.",
    fix="Write mask_token_id as the drafter's publisher states it (--set mask_token_id=N when converting).",
    references=(_TOKEN,),
)
def missing(context: Context) -> Iterator[Hit]:
    """Fires for a gap, and for an engine that finds none."""
    gaps = context.gaps("mask_token_id")
    for gap in gaps:
        yield Hit(gap.detail)
    if not gaps:
        yield from engine_refuses(context, "MSK001")


@rule(
    "MSK002",
    "mask-token-outside-vocabulary",
    summary="The mask token is no row of the embedding.",
    why=(
        "Inside the table's padding it is silent and reads an untrained row; beyond it the engine fails "
        "or reads elsewhere."
    ),
    fix="Correct mask_token_id.",
    references=("vLLM 0.32 run: id 505 of 500 is silent, beyond the table it fails at the first draft",),
)
def outside(context: Context) -> Iterator[Hit]:
    """Ids run from 0 to vocab_size - 1."""
    token, size = context.drafter.mask_token_id, context.drafter.dimensions.vocab_size
    if token is not None and size and not 0 <= token < size:
        yield Hit(f"mask token {token} is outside the vocabulary of {size}")


@rule(
    "MSK003",
    "mask-hidden-missing",
    methods=("peagle",),
    summary="The tensor mask_hidden is missing.",
    why="It is what makes an EAGLE-3 head a P-EAGLE drafter; vLLM refuses parallel drafting without it.",
    fix="Use the complete checkpoint; an EAGLE-3 head cannot be converted into P-EAGLE.",
    references=("vLLM 0.33 model_executor/models/llama_eagle3.py load_weights",),
)
def hidden_missing(context: Context) -> Iterator[Hit]:
    """Fires when no tensor lands on the name."""
    if "mask_hidden" not in context.shapes:
        yield Hit("no tensor mask_hidden: vLLM raises 'mask_hidden not found in weights'")


@rule(
    "MSK005",
    "mask-embedding-file",
    scope="engine",
    summary="mask_embedding.pt beside the config holds the mask token's row, and is not read.",
    why="vLLM's DFlash class puts it in the place of the verifier's row; its DSpark class ignores the file.",
    fix="Serve the folder natively as DFlash (vLLM >= 0.25).",
    references=("vLLM 0.33 model_executor/models/qwen3_dflash.py mask_embedding",),
)
def embedding_file(context: Context) -> Iterator[Hit | Abstain]:
    """Fires for DSpark only: vLLM's other classes read the file, or have none. What is in it needs torch."""
    for name in unread(context.view, context.reading.dialect.file.side):
        yield Abstain(f"what is in {name}, which torch alone reads (pip install 'spectool[torch]')")
    if context.method == "dspark" and "mask_embedding.pt" in context.view.side_files:
        yield Hit(f"{context.facts.title} does not read mask_embedding.pt for DSpark")


@rule(
    "MSK004",
    "mask-token-differs",
    scope="engine",
    summary="vLLM would use another mask token.",
    why="A second key (for example inside transformer_layer_config) wins over the one the trainer wrote.",
    fix="Remove the other key.",
    references=(_TOKEN,),
)
def differ(context: Context) -> Iterator[Hit]:
    """Fires on any difference."""
    yield from differs(context, "mask_token_id", "the mask token is read from another key")
