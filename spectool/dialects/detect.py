"""Find the one dialect whose predicates a folder meets."""

from __future__ import annotations

from spectool.dialects.catalogue import Dialect, catalogue, extended, fitting
from spectool.dialects.predicates import matches
from spectool.dialects.view import View
from spectool.errors import RefusedError
from spectool.formats.dialect import Match


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
    architectures = view.config.get("architectures") or view.config.get("model_type") or "no architecture"
    hint = f"Known dialects: {', '.join(catalogue())}. Choose one with --from if a key or tensor is merely missing."
    inside = sorted(prefixes(view))
    if inside:
        hint = (
            f"Tensors under {', '.join(inside)} look like a drafter's. If it lies within something bigger: "
            f"--set tensors_under={inside[0]}, and --set config_under=KEY where its configuration is an object of "
            "config.json (else --from DIALECT)."
        )
    raise RefusedError(
        f"{view.name} is no drafter layout spectool knows ({architectures}, {len(view.tensors)} tensors)",
        hint=hint,
        code="CFG001",
    )
