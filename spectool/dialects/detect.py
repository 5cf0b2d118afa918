"""Find the one dialect whose predicates a folder meets."""

from __future__ import annotations

import re

from spectool.dialects.catalogue import Dialect, catalogue
from spectool.dialects.view import View
from spectool.errors import RefusedError
from spectool.formats.lookup import MISSING, lookup

# Producers and methods that are recognised, to be refused by name rather than as "unknown".
MASK_HIDDEN = "tensor:^(midlayer|layers\\.0)\\.hidden_norm\\.weight$"
FOREIGN: dict[str, str] = {
    "key:speculators_model_type=eagle3": "an EAGLE-3 head in Speculators format; vLLM serves it as it is",
    "key:speculators_model_type=dflash2": "a DFlash2 drafter in Speculators format; vLLM serves it as it is",
    "key:speculators_model_type=mtp": "an MTP head in Speculators format",
    "arch:Gemma4DSparkModel": (
        "a DSpark head with gemma's own backbone; vLLM serves it natively, Speculators cannot hold it"
    ),
    "arch:DFlash2DraftModel": "a DFlash2 drafter; vLLM serves it natively",
    "arch:DFlashLagunaForCausalLM": (
        "a Laguna DFlash drafter; vLLM serves it natively, Speculators cannot hold its gates"
    ),
    "tensor:parallel_draft_heads\\.": "an EAGLE-3 head with ModelOpt's Medusa heads, which is not P-EAGLE",
    MASK_HIDDEN: ("an EAGLE-3 head: without the tensor mask_hidden it was not trained to draft in parallel"),
}


def matches(predicate: str, view: View) -> bool:
    """Whether one predicate (`arch:`, `key:` or `tensor:`) holds for a folder."""
    kind, _, rest = predicate.partition(":")
    match kind:
        case "arch":
            names = view.config.get("architectures")
            return isinstance(names, list) and rest in names
        case "key":
            path, equals, wanted = rest.partition("=")
            value = lookup(view.config, path)
            if value is MISSING:
                return False
            return not equals or as_text(value) == wanted
        case _:
            pattern = re.compile(rest)
            return any(pattern.search(name) for name in view.tensors)


def as_text(value: object) -> str:
    """Spell a JSON scalar as a dialect file does (true, not True)."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def candidates(view: View) -> list[Dialect]:
    """Return every dialect whose predicates hold; more than one is a fault of the dialect files."""
    return [
        dialect
        for dialect in catalogue().values()
        if all(matches(predicate, view) for predicate in dialect.file.match.all)
        and not any(matches(predicate, view) for predicate in dialect.file.match.none)
    ]


def detect(view: View) -> Dialect:
    """Return the folder's dialect.

    Raises:
        RefusedError: no dialect, or more than one, fits. What the folder looks like is named where it is known.

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
    for predicate, meaning in FOREIGN.items():
        if matches(predicate, view):
            raise RefusedError(f"{view.name} is {meaning}", code="MSK003" if predicate == MASK_HIDDEN else "CFG001")
    architectures = view.config.get("architectures") or view.config.get("model_type") or "no architecture"
    raise RefusedError(
        f"{view.name} is no drafter layout spectool knows ({architectures}, {len(view.tensors)} tensors)",
        hint=f"Known dialects: {', '.join(catalogue())}. Choose one with --from if a key or tensor is merely missing.",
        code="CFG001",
    )
