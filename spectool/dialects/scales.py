"""Factors a drafter was trained with, on the embedding it borrows, its logits and its values."""

from __future__ import annotations

import math
import struct

from spectool.dialects.record import Question
from spectool.dialects.sources import Resolver
from spectool.formats.dialect import Source
from spectool.formats.verifier import VerifierView

# Rows of the token embedding of Gemma 2, 3 and 4 (with and without padding): the one family whose embedding module
# multiplies by itself (transformers Gemma3TextScaledWordEmbedding).
GEMMA_VOCABULARIES = (256000, 262144, 262208)


def embedding_scale(
    source: Source | None,
    resolver: Resolver,
    hidden: int,
    vocabulary: int,
    verifier: VerifierView | None,
    *,
    shipped: bool = False,
) -> float:
    """Return the factor on the verifier's token embedding, by family where the file does not say.

    Gemma multiplies by sqrt(hidden_size) rounded to bf16: 73.5 for 5376. Without a verifier's config a vocabulary of
    gemma's size makes it a question. `shipped`: the drafter has an embedding of its own, as it was trained with.
    """
    scale = resolver.number("embedding_scale", source, 0.0)
    if scale or source is None or not str(source.default).startswith("verifier-family"):
        return scale or 1.0
    factor = to_bf16(math.sqrt(hidden))
    if source.default == "verifier-family-or-raw":
        family = None if verifier is None else str(verifier.model_type)
        if not shipped and (vocabulary in GEMMA_VOCABULARIES if family is None else family.startswith("gemma")):
            why = (
                "gemma scales its embedding inside the verifier; this trainer uses that module when the verifier runs "
                "beside it, and the raw rows when hidden states were stored before"
            )
            resolver.questions.append(Question("embedding_scale", why, (f"{factor:g}", "1")))
        return 1.0
    if verifier is None:
        if vocabulary in GEMMA_VOCABULARIES:
            why = (
                f"a vocabulary of {vocabulary} is gemma's, whose embedding is scaled inside the verifier; "
                "--verifier FOLDER settles it"
            )
            resolver.questions.append(Question("embedding_scale", why, (f"{factor:g}", "1")))
        return 1.0
    if not str(verifier.model_type).startswith("gemma"):
        return 1.0
    resolver.assume("embedding_scale", f"{factor:g}", "gemma verifiers scale their embedding; the file does not say so")
    return factor


def to_bf16(value: float) -> float:
    """Round a positive number to the nearest bfloat16, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", rounded))[0])
