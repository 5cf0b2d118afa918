"""The rule families. Importing one registers its rules."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

FAMILIES = (
    *(
        "config",
        "aux_layers",
        "slots",
        "mask",
        "layers",
        "attention",
        "rope",
        "heads",
        "quantisation",
        "tensors",
        "vocabulary",
        "verifier",
        "verifier_folder",
    ),
    "limits",
)
# Families all of whose rules have one scope: imported only where that scope runs, since `validate` has to be quick.
OF_SCOPE = {
    "weights": ("weights",),
    "launch": ("flags", "parallel", "copies", "runner", "speculation", "sampling", "budgets", "features", "backends"),
    "file": ("schema_only",),
}


def load(scopes: Iterable[str] = tuple(OF_SCOPE)) -> None:
    """Import the families whose rules have one of these scopes, once; the common ones always."""
    for family in (*FAMILIES, *(name for scope in scopes for name in OF_SCOPE.get(scope, ()))):
        import_module(f"spectool.rules.{family}")
