"""The published points (`speedups.json`) and the sizes of what was measured (`subjects.json`)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from spectool.speed.costs import Draft, Experts, Machine, Target
from spectool.speed.machines import machine_of

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: `k` drafts, `requests` at a time, `speedup` over the same without a drafter."""

    publication: str
    group: str
    engine: str
    machine: Machine
    target_name: str
    target: Target
    drafter: str
    draft: Draft
    method: str
    dataset: str
    k: int
    requests: float
    tokens_per_round: float
    context: float
    speedup: float
    baseline: float | None

    @property
    def setting(self) -> tuple[object, ...]:
        """What is the same for points that differ in K alone."""
        return (self.group, self.target_name, self.drafter, self.dataset, self.requests)


@cache
def raw() -> list[dict[str, Any]]:
    """Return all points as they are in the file."""
    document: dict[str, Any] = json.loads((HERE / "speedups.json").read_text(encoding="utf-8"))
    points: list[dict[str, Any]] = document["points"]
    return points


@cache
def _subjects() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((HERE / "subjects.json").read_text(encoding="utf-8"))
    return document


def target_named(name: str) -> Target:
    """Return the sizes of a measured verifier."""
    sizes = dict(_subjects()["targets"][name])
    experts = sizes.pop("experts", None)
    return Target(**sizes, experts=Experts(**experts) if experts else None)


def draft_named(method: str, target: str) -> Draft:
    """Return the sizes of a measured drafter."""
    for item in _subjects()["drafters"]:
        if (item["method"], item["target"]) == (method, target):
            return Draft(item["layers"], item["parameters"], serial=method == "eagle3", markov=method == "dspark")
    raise KeyError((method, target))


def to_point(item: dict[str, Any]) -> Point:
    """Return a point of the file; one that states no tokens per round has NaN there."""
    machine = machine_of(item["gpu"], item["ranks"])
    assert machine is not None
    tokens = item["tokens_per_round"]
    return Point(
        publication=item["publication"],
        group=item["group"],
        engine=item["engine"],
        machine=machine,
        target_name=item["target"],
        target=target_named(item["target"]),
        drafter=item["drafter"],
        draft=draft_named(item["method"], item["target"]),
        method=item["method"],
        dataset=item["dataset"],
        k=item["k"],
        requests=max(1.0, item["requests"]),
        tokens_per_round=math.nan if tokens is None else tokens,
        context=item["context"],
        speedup=item["speedup"],
        baseline=item["baseline_tokens_per_second"],
    )


@cache
def points() -> tuple[Point, ...]:
    """Return the points that state tokens per round."""
    return tuple(to_point(item) for item in raw() if item["used"])


@cache
def blind_points() -> tuple[Point, ...]:
    """Return the points nothing is fitted to, as vLLM's: the range that is printed is for no other engine."""
    document: dict[str, Any] = json.loads((HERE / "blind.json").read_text(encoding="utf-8"))
    return tuple(to_point(item | {"engine": "vllm"}) for item in document["points"])
