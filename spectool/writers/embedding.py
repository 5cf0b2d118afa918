"""Ship the embedding a drafter was trained on, where it is the verifier's times a factor."""

from __future__ import annotations

from collections.abc import Mapping

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


def scaled_embedding(
    view: View, drafter: Drafter, verifier_tensors: Mapping[str, TensorHeader] | None
) -> PlannedTensor:
    """Plan `embed_tokens.weight` [vocab, hidden] as the verifier's times the drafter's embedding scale.

    vLLM keeps a shipped embedding that is not bit-equal to the verifier's (`process_eagle_weight`).

    Raises:
        UsageError: the verifier's weights are not at hand.
        RefusedError: its embedding has other sizes or is not bf16.

    """
    size, scale = drafter.dimensions, drafter.embedding_scale
    if verifier_tensors is None:
        raise UsageError(
            f"{view.name} was trained on the verifier's embedding times {scale:g}, which has to be shipped",
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
    operation = f"the verifier's, times {scale:g} (bf16)"
    return PlannedTensor(NAME, "BF16", tuple(found.shape), name, operation, origin="verifier", scale=scale)
