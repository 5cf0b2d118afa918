"""What the range rests on: fitted constants, its width, and where it is printed (`spectool/data/speed/constants.json`).

The file is written by `make evaluation`, from points of which none is hand-picked (`tests/evaluation/learning.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from spectool.resources import package_data
from spectool.speed.costs import Constants

Kind = Literal["dense", "moe"]
Load = Literal["low", "high"]
Cell = tuple[Kind, Load]
KINDS: tuple[Kind, ...] = ("dense", "moe")
# The least number of requests of each load.
LOADS: Mapping[Load, float] = {"low": 0, "high": 16}
# The widest 80 % range (high over low) that is still worth printing.
MOST_WIDTH: Mapping[Kind, float] = {"dense": 1.6, "moe": 2.0}


@dataclass(frozen=True)
class Evidence:
    """What was learned, and how well it held.

    `half`: half width of the 80 % range in logarithms; `cells`: the largest load seen, where predicted. `held`: the
    share of values measured with parallel drafters that lay in the range, by kind, where the whole publication they
    come from was left out; None where nothing is predicted.
    """

    constants: Constants
    half: float
    cells: Mapping[Cell, float]
    tables: int
    publications: int
    held: Mapping[Kind, float | None]

    def load_of(self, requests: float) -> Load:
        """Return the load so many requests are."""
        return "low" if requests < LOADS["high"] else "high"


@cache
def evidence() -> Evidence:
    """Return what was learned from all points."""
    document = json.loads(package_data("speed", "constants.json").read_text(encoding="utf-8"))
    return Evidence(
        constants=Constants(**document["constants"]),
        half=document["half_width"],
        cells={(cell["kind"], cell["load"]): cell["most_requests"] for cell in document["predicted"]},
        tables=document["tables"],
        publications=document["publications"],
        held=document["held"],
    )
