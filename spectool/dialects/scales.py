"""Factors a drafter was trained with, on the embedding it borrows, its logits and its values."""

from __future__ import annotations

import math
import struct

from spectool.dialects.record import Question
from spectool.dialects.sources import Resolver
from spectool.drafter.model import Drafter
from spectool.formats.dialect import Source
from spectool.formats.verifier import VerifierView

# Rows of the token embedding of Gemma 2, 3 and 4 (with and without padding): the one family whose embedding module
# multiplies by itself (transformers Gemma3TextScaledWordEmbedding).
GEMMA_VOCABULARIES = (256000, 262144, 262208)
# Why it is a question, by the dialect file's default.
_TRAINERS = {
    "verifier-family-or-raw": (
        "gemma scales its embedding inside the verifier; this trainer uses that module when the verifier runs beside "
        "it, and the raw rows when hidden states were stored before"
    ),
    # z-lab/dflash dflash/model.py calls the target's module; specforge 0.2.0 TargetEmbeddingsAndHead loads the rows
    # into a plain embedding; ModelOpt has both ways. Their folders are alike, key by key.
    "verifier-family-if-published": (
        "gemma scales its embedding inside the verifier; z-lab trains with that module, SpecForge with the raw rows, "
        "and nothing in the folder says who trained it"
    ),
}


def embedding_scale(
    source: Source | None,
    resolver: Resolver,
    drafter: Drafter,
    verifier: VerifierView | None,
    *,
    shipped: bool = False,
) -> float:
    """Return the factor on the verifier's token embedding, by family where the file does not say.

    Gemma multiplies by sqrt(hidden_size) rounded to bf16: 73.5 for 5376. What a trainer did with that is a question
    where its layout does not tell; without a verifier's config a vocabulary of gemma's size makes it gemma's.

    Args:
        source: where the factor stands.
        resolver: of the folder.
        drafter: the drafter, its embedding scale not yet read.
        verifier: whose family counts, where it is known.
        shipped: the drafter has an embedding of its own, as it was trained with.

    """
    scale = resolver.number("embedding_scale", source, 0.0)
    by_family = source is not None and str(source.default).startswith("verifier-family")
    if not by_family or source is None or not _is_gemma(drafter, verifier):
        return scale or 1.0
    factor = to_bf16(math.sqrt(drafter.dimensions.hidden_size))
    if source.default == "verifier-family":
        return _times(scale, factor, resolver, known=verifier is not None)
    if scale or shipped:
        return scale or 1.0
    published = _published(drafter) if source.default == "verifier-family-if-published" else None
    if published is None:
        why = _TRAINERS[str(source.default)]
    elif verifier is None:
        why = f"this looks like {published}, for a gemma verifier; --verifier FOLDER settles it"
    else:
        why = (
            f"gemma verifiers scale their embedding, and this looks like {published}, whose trainer uses their module; "
            "other trainers of this layout use the raw rows (--set embedding_scale=1)"
        )
        resolver.assume("embedding_scale", f"{factor:g}", why)
        return factor
    resolver.questions.append(Question("embedding_scale", why, (f"{factor:g}", "1")))
    return 1.0


def _is_gemma(drafter: Drafter, verifier: VerifierView | None) -> bool:
    if verifier is None:
        return drafter.dimensions.vocab_size in GEMMA_VOCABULARIES
    return str(verifier.model_type).startswith("gemma")


def _times(stated: float, factor: float, resolver: Resolver, *, known: bool) -> float:
    """Return the product of the verifier's own factor and the trainer's, where one number can say it exactly."""
    if "embedding_scale" in resolver.settings:
        return stated
    if not known:
        why = (
            "a vocabulary of gemma's size, whose embedding is scaled inside the verifier; --verifier FOLDER settles it"
        )
        resolver.questions.append(Question("embedding_scale", why, (f"{factor:g}", "1")))
        return 1.0
    if stated not in {0.0, 1.0}:
        why = (
            f"the trainer multiplies the verifier's embedding, which gemma scales by {factor:g} itself, by {stated:g}: "
            "two roundings to bf16, which one factor only comes close to"
        )
        resolver.questions.append(Question("embedding_scale", why, (f"{factor * stated:g}",)))
        return 1.0
    resolver.assume(
        "embedding_scale",
        f"{factor:g}",
        "gemma verifiers scale their embedding, and this trainer uses their module; the file does not say so",
    )
    return factor


def _published(drafter: Drafter) -> str | None:
    """Return the published z-lab drafter a folder looks like."""
    from spectool.catalogue.known import recognise  # noqa: PLC0415 - a large table, for gemma only

    return next((item.drafter for item in recognise(drafter) if item.dialect == "z-lab"), None)


def to_bf16(value: float) -> float:
    """Round a positive number to the nearest bfloat16, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", rounded))[0])
