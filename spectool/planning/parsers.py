"""Which parsers of `vllm serve` a verifier wants (`spectool/data/planning/parsers.json`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from spectool.resources import package_data


@dataclass(frozen=True, slots=True)
class Parsers:
    """A verifier's parsers; None where it needs none."""

    verifier: str
    reasoning: str | None
    tools: str | None
    source: str


def parsers_for(names: Iterable[str]) -> Parsers | None:
    """Return the parsers of the first of these names that is known, by Hub id or by its last part; else None."""
    document = json.loads(package_data("planning", "parsers.json").read_text(encoding="utf-8"))
    known = {item["verifier"]: Parsers(**item) for item in document["verifiers"]}
    short = {name.rpartition("/")[2]: parsers for name, parsers in known.items()}
    for name in names:
        found = known.get(name) or short.get(name)
        if found is not None:
            return found
    return None
