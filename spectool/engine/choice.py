"""Which vLLM a check speaks about: a release by its number, the newest known, or the one that is installed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spectool.engine.facts import EngineFacts, engine_facts, nearest_facts
from spectool.errors import UsageError

if TYPE_CHECKING:
    from spectool.engine.ask import Engine

INSTALLED = "installed"


@dataclass(frozen=True, slots=True)
class Choice:
    """The facts that are spoken with, and the release that was asked about: they differ where there are none of it.

    `installed` is the engine that was asked; None where a release was named by its number.
    """

    facts: EngineFacts
    asked: str
    installed: Engine | None = None

    @property
    def stand_in(self) -> bool:
        """Whether another release's facts stand in for the one that was asked about."""
        return _plain(self.asked) != self.facts.version


def choose(engine: str | None, engine_python: str | None = None) -> Choice:
    """Settle which release is spoken about.

    Args:
        engine: a release such as `vllm==0.33.0`, `installed`, or None: the newest known, or with `engine_python` the
            one installed there.
        engine_python: the installed engine's interpreter; see `spectool.engine.locate` for where it is looked for.

    Raises:
        EngineMissingError: the installed one is meant, and there is none.
        UsageError: no release of that name is known, or its number cannot be read.

    """
    if engine_python is not None and engine not in (None, INSTALLED):
        raise UsageError(
            f"--engine {engine} names a release, --engine-python an installed engine",
            hint=f"Leave one out, or write --engine {INSTALLED}.",
        )
    if engine != INSTALLED and engine_python is None:
        facts = engine_facts(engine)
        named = re.search(r"\d+(?:\.\d+)+", engine or "")
        return Choice(facts, _plain(named[0]) if named else facts.version)
    from spectool.engine.ask import find_engine  # noqa: PLC0415 - only where an engine is asked

    found = find_engine(engine_python)
    return Choice(nearest_facts(found.version), found.version, found)


def _plain(version: str) -> str:
    """Return `0.33.0` for `0.33.0.post1+cpu` and `0.33`; a pre-release stays what it is."""
    version = version.partition("+")[0]
    version = re.sub(r"\.post\d+$", "", version)
    return f"{version}.0" if re.fullmatch(r"\d+\.\d+", version) else version
