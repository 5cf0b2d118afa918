"""Find the one dialect whose predicates a folder meets."""

from __future__ import annotations

from spectool.dialects.catalogue import Dialect, catalogue, extended, fitting
from spectool.dialects.predicates import matches
from spectool.dialects.view import View
from spectool.errors import RefusedError
from spectool.formats.dialect import Match

_OF_MODELS = ("embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight")
_OF_DRAFTERS = ("fc.weight", "mask_hidden")


def meets(match: Match, view: View) -> bool:
    """Whether a folder meets the predicates of a dialect file."""
    return (
        all(matches(predicate, view) for predicate in match.all)
        and (not match.any or any(matches(predicate, view) for predicate in match.any))
        and not any(matches(predicate, view) for predicate in match.none)
    )


def candidates(view: View) -> list[Dialect]:
    """Return every dialect whose predicates hold; more than one is a fault of the dialect files.

    Those of installed packages come last: they are asked where no other fits.
    """
    found = fitting(lambda match: meets(match, view))
    return found or [dialect for dialect in extended().values() if meets(dialect.file.match, view)]


def detect(view: View) -> Dialect:
    """Return the folder's dialect.

    Raises:
        RefusedError: no dialect, or more than one, fits. What the folder looks like is named where it is known, with
            what serves it instead.

    """
    found = candidates(view)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(dialect.file.dialect for dialect in found)
        raise RefusedError(
            f"{view.name} fits more than one dialect: {names}",
            hint="Name the right one with --from DIALECT.",
            code="CFG001",
        )
    # What has a name of its own is asked only of what is refused: detecting has to be quick.
    from spectool.dialects.recognised import recognise  # noqa: PLC0415 - as above
    from spectool.dialects.within import prefixes  # noqa: PLC0415 - as above

    known = recognise(view)
    if known is not None:
        raise RefusedError(f"{view.name} is {known.title}: {known.why}", hint=known.instead or None, code=known.code)
    inside = sorted(prefixes(view))
    if inside:
        hint = (
            f"Tensors under {', '.join(inside)} look like a drafter's. If it lies within something bigger: "
            f"--set tensors_under={inside[0]}, and --set config_under=KEY where its configuration is an object of "
            "config.json (else --from DIALECT)."
        )
    elif is_whole_model(view):
        raise RefusedError(
            f"{view.name} is a whole language model ({_architecture(view)}), no drafter",
            hint="Were the two swapped? The drafter comes first, the model is --verifier. "
            "Which drafters are known for it: spectool inspect FOLDER",
            code="CFG001",
        )
    else:
        hint = f"Known dialects: {', '.join(catalogue())}. Choose one with --from if a key or tensor is merely missing."
    raise RefusedError(
        f"{view.name} is no drafter layout spectool knows ({_architecture(view)}, {len(view.tensors)} tensors)",
        hint=hint,
        code="CFG001",
    )


def is_whole_model(view: View) -> bool:
    """Whether a folder's tensors are those of a language model that runs by itself, wherever it nests them."""
    return all(any(name.endswith(end) for name in view.tensors) for end in _OF_MODELS) and not any(
        name.endswith(_OF_DRAFTERS) for name in view.tensors
    )


def _architecture(view: View) -> str:
    named = view.config.get("architectures")
    if isinstance(named, list) and named:
        return ", ".join(map(str, named))
    return str(view.config.get("model_type") or "no architecture")
