"""Ship the embedding a drafter was trained on, where it is the verifier's times a factor."""

from __future__ import annotations

from collections.abc import Mapping

from spectool.dialects.record import Reading
from spectool.dialects.view import TensorHeader, View
from spectool.drafter.model import Drafter
from spectool.errors import RefusedError, UsageError
from spectool.writers.plan import PlannedTensor

NAME = "embed_tokens.weight"
# Plain, nested and prefixed names of the language model's embedding in published verifiers.
PREFIXES = ("model.", "model.language_model.", "language_model.model.", "language_model.", "thinker.model.", "")


def of_verifier(name: str, tensors: Mapping[str, TensorHeader], *, tied: bool = False) -> str | None:
    """Return what a verifier calls its embedding or head; a tied head is the embedding."""
    wanted = (name, NAME) if tied else (name,)
    return next((prefix + item for item in wanted for prefix in PREFIXES if prefix + item in tensors), None)


def masked_embedding(
    view: View, reading: Reading, verifier_tensors: Mapping[str, TensorHeader] | None
) -> PlannedTensor | None:
    """Plan `embed_tokens.weight` as the verifier's with the mask token's row that the drafter keeps beside its weights.

    vLLM reads such a file for native DFlash folders alone; a shipped embedding it reads for every kind. None for a
    drafter without such a row.

    Raises:
        UsageError: the verifier's weights are not at hand.
        RefusedError: the row or the verifier's embedding has other sizes or is not bf16, or the drafter ships an
            embedding as well.

    """
    row = next((item.source for item in reading.placements.placed.values() if item.op == "mask-row"), None)
    if row is None:
        return None
    drafter, header = reading.drafter, view.tensors[row]
    if NAME in reading.placements.placed or drafter.embedding_scale != 1.0 or drafter.mask_token_id is None:
        raise RefusedError(f"{view.name} has a row for the mask token and an embedding of its own", code="MSK005")
    if header.dtype != "BF16" or header.shape[-1:] != (drafter.dimensions.hidden_size,) or len(header.shape) > 2:
        raise RefusedError(f"{view.name}: {row} is {header.dtype} {list(header.shape)}, no row in bf16", code="MSK005")
    name, shape = _borrowed(view, drafter, verifier_tensors, "a row beside the verifier's embedding")
    operation = f"row {drafter.mask_token_id} of the verifier's {name}"
    return PlannedTensor(NAME, "BF16", shape, row, operation, into=name, row=drafter.mask_token_id)


def scaled_embedding(
    view: View, drafter: Drafter, verifier_tensors: Mapping[str, TensorHeader] | None
) -> PlannedTensor:
    """Plan `embed_tokens.weight` [vocab, hidden] as the verifier's times the drafter's embedding scale.

    vLLM keeps a shipped embedding that is not bit-equal to the verifier's (`process_eagle_weight`).

    Raises:
        UsageError: the verifier's weights are not at hand.
        RefusedError: its embedding has other sizes or is not bf16.

    """
    scale = drafter.embedding_scale
    name, shape = _borrowed(view, drafter, verifier_tensors, f"the verifier's embedding times {scale:g}")
    operation = f"the verifier's, times {scale:g} (bf16)"
    return PlannedTensor(NAME, "BF16", shape, name, operation, origin="verifier", scale=scale)


def _borrowed(
    view: View, drafter: Drafter, verifier_tensors: Mapping[str, TensorHeader] | None, what: str
) -> tuple[str, tuple[int, ...]]:
    """Return name and shape of the verifier's embedding, which must be that of the drafter's vocabulary and width."""
    size = drafter.dimensions
    if verifier_tensors is None:
        raise UsageError(
            f"{view.name} was trained on {what}, which has to be shipped",
            hint="Give --verifier FOLDER with the verifier's weights.",
        )
    name = of_verifier(NAME, verifier_tensors)
    if name is None:
        raise RefusedError(f"the verifier has no tensor {NAME}, whose rows {view.name} was trained on", code="VER004")
    found = verifier_tensors[name]
    if found.dtype != "BF16" or tuple(found.shape) != (size.vocab_size, size.hidden_size):
        raise RefusedError(
            f"the verifier's {name} is {found.dtype} {list(found.shape)}, {view.name} was trained on "
            f"BF16 {[size.vocab_size, size.hidden_size]}",
            code="VER004",
        )
    return name, tuple(found.shape)
