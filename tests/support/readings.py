"""Short ways to the two readings and to a planned output."""

from __future__ import annotations

from typing import Any

from spectool.dialects.detect import detect
from spectool.dialects.read import read_drafter
from spectool.dialects.record import Reading
from spectool.dialects.view import View
from spectool.engine.facts import engine_facts
from spectool.engine.reading.read import read_engine
from spectool.engine.reading.record import EngineReading
from spectool.formats.verifier import VerifierView
from spectool.writers.plan import OutputPlan
from spectool.writers.speculators import write_speculators


def trained(view: View, verifier: VerifierView | None = None, **settings: Any) -> Reading:
    """The trainer's reading of a folder."""
    return read_drafter(
        view, detect(view), verifier=verifier, settings={key.replace("__", "."): v for key, v in settings.items()}
    )


def run(view: View, verifier: VerifierView | None = None, version: str | None = None) -> EngineReading:
    """The engine's reading of a folder."""
    return read_engine(view, detect(view).file.method, engine_facts(version), verifier=verifier)


def written(view: View, verifier: VerifierView | None = None, **settings: Any) -> OutputPlan:
    """The planned Speculators folder."""
    return write_speculators(view, trained(view, verifier, **settings), verifier=verifier, verifier_name="org/verifier")
