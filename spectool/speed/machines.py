"""The GPUs whose speed is known (`spectool/data/speed/machines.json`)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from spectool.resources import package_data
from spectool.speed.costs import Machine


@cache
def _machines() -> dict[str, Any]:
    document = json.loads(package_data("speed", "machines.json").read_text(encoding="utf-8"))
    machines: dict[str, Any] = document["machines"]
    return machines


def machine_names() -> tuple[str, ...]:
    """Return the catalogue names of all GPUs with an entry."""
    return tuple(_machines())


def machine_of(name: str, ranks: int) -> Machine | None:
    """Return `ranks` GPUs of a catalogue name; None where timings of it, or of so many together, are not known."""
    entry = _machines().get(name)
    if entry is None:
        return None
    link = None
    if ranks > 1:
        timing = entry["all_reduce"].get(str(ranks))
        if timing is None:
            return None
        link = (timing[0], timing[1])
    return Machine(
        bandwidth=entry["bandwidth"],
        arithmetic=entry["arithmetic"],
        bandwidth_share=entry["bandwidth_share"],
        arithmetic_share=entry["arithmetic_share"],
        ranks=ranks,
        link=link,
    )
