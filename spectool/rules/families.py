"""The rule families. Importing one registers its rules."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    *(
        "config",
        "aux_layers",
        "slots",
        "mask",
        "layers",
        "heads",
        "quantisation",
        "tensors",
        "vocabulary",
        "verifier",
        "limits",
    ),
    *("weights", "schema_only"),
    # About a launch: they are part of the list of rules, and run where one is told.
    *("parallel", "runner", "speculation", "sampling", "budgets", "features"),
)


def load() -> None:
    """Import every family once."""
    for family in FAMILIES:
        import_module(f"spectool.rules.{family}")
