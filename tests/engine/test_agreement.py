"""spectool's reading of a folder against the engine's own doing, over every planted fault and near miss.

The engine (the CPU build, one short generation per case) says where it stops, which layers it captures, how it attends
and which mask token it uses. The engine's reading must have predicted each of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from faults import CONVERTED_FAULTS, NATIVE_FAULTS, NEAR_MISSES, STOPS_AT
from mutations import NATIVE, PAIRS, VERIFIER, folder
from oracle import Verdict, judge

from spectool import api
from spectool.dialects.detect import detect
from spectool.drafter.model import Drafter
from spectool.engine.facts import engine_facts
from spectool.engine.reading.read import read_engine
from spectool.errors import RefusedError
from spectool.loading import load_drafter, load_verifier

VERSION = "0.32.0"  # the engine of the lock file
SERVED: dict[str, dict[str, Any]] = {
    "peagle": {"method": "eagle3", "parallel_drafting": True, "num_speculative_tokens": 5},
    "dflash": {"method": "dflash", "num_speculative_tokens": 7},
    "dspark": {"method": "dspark", "num_speculative_tokens": 7},
}


@dataclass(frozen=True)
class Planted:
    name: str
    method: str
    path: Path
    faulty: bool


def plant(root: Path) -> Iterator[Planted]:
    converted = {}
    for method, source in NATIVE.items():
        settings = {"verifier": "spectool/tiny-verifier", **({"speculative_tokens": 5} if method == "peagle" else {})}
        converted[method] = root / f"converted-{method}"
        plan = api.plan_conversion(str(PAIRS / source), verifier=str(VERIFIER), settings=settings)
        api.convert(plan, converted[method])
    native = {method: PAIRS / source for method, source in NATIVE.items()}
    rows = [("native", method, name, change, True) for method, name, change, _ in NATIVE_FAULTS]
    rows += [("converted", method, name, change, True) for method, name, change, _ in CONVERTED_FAULTS]
    rows += [(layout, method, name, change, False) for layout, method, name, change in NEAR_MISSES]
    for number, (layout, method, name, change, faulty) in enumerate(rows):
        base = (native if layout == "native" else converted)[method]
        yield Planted(f"{layout}-{method}-{name}", method, folder(base, root / str(number), change), faulty)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> list[Planted]:
    return list(plant(tmp_path_factory.mktemp("planted")))


@pytest.fixture(scope="module")
def verdicts(
    planted: list[Planted], engine_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Verdict]:
    def ask(runner: str) -> dict[str, Verdict]:
        cases = [
            {
                "id": f"{item.name}{'' if item.faulty else ' (near miss)'}",
                "verifier": str(VERIFIER),
                "speculative_config": {**SERVED[item.method], "model": str(item.path)},
                "runner": runner,
                "engine_args": {"max_num_batched_tokens": 64},  # the dummy run at start has this size
                "max_tokens": 4,
            }
            for item in planted
            if (item.method == "dspark") == (runner == "v2")
        ]
        return judge(engine_python, cases, tmp_path_factory.mktemp(runner))

    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        both = list(pool.map(ask, ("v1", "v2")))
    return both[0] | both[1]


def predicted(item: Planted) -> Drafter | None:
    """The engine's reading; None where it says vLLM would stop."""
    _, view = load_drafter(str(item.path))
    try:
        detect(view)
    except RefusedError:
        return None
    verifier = load_verifier(str(VERIFIER)).view
    reading = read_engine(view, item.method, engine_facts(VERSION), verifier=verifier)  # type: ignore[arg-type]  # the table holds plain str for the method
    return None if reading.refusals else reading.drafter


def test_every_case_ends_where_the_tables_say(planted: list[Planted], verdicts: dict[str, Verdict]) -> None:
    seen = {name: verdict["stage"] for name, verdict in verdicts.items()}
    expected = {item.name: STOPS_AT.get(item.name, "ok") for item in planted if item.faulty}
    expected |= {f"{item.name} (near miss)": "ok" for item in planted if not item.faulty}
    assert seen == expected


def test_what_runs_is_read_as_the_engine_runs_it(planted: list[Planted], verdicts: dict[str, Verdict]) -> None:
    compared = 0
    for item in planted:
        verdict = verdicts[f"{item.name}{'' if item.faulty else ' (near miss)'}"]
        drafter = predicted(item)
        if verdict["stage"] != "ok":
            continue
        if drafter is None:
            assert "anchor flag" in item.name, item.name  # model runner V1 ignores what V2 refuses
            continue
        extra = verdict["extra"]
        assert extra["taps"] == list(drafter.aux_layers or ()), item.name
        assert extra["mask_token_id"] == drafter.mask_token_id, item.name
        if extra["causal"] is not None:
            assert extra["causal"] == [layer.causal for layer in drafter.attention], item.name
        compared += 1
    assert compared > 60


def test_a_predicted_refusal_is_a_refusal(planted: list[Planted], verdicts: dict[str, Verdict]) -> None:
    refused = [item for item in planted if item.faulty and predicted(item) is None]
    ran = [item.name for item in refused if verdicts[item.name]["ok"]]
    assert ran == ["converted-dflash-anchor flag"]  # model runner V1 ignores what V2 refuses
    assert len(refused) > 15


def test_parameters_no_tensor_reached_are_found(planted: list[Planted], verdicts: dict[str, Verdict]) -> None:
    """The engine runs on with whatever lies in memory; spectool's findings must name the fault."""
    silent = [item for item in planted if verdicts.get(item.name, {}).get("missing_params")]
    for item in silent:
        report = api.validate(str(item.path), verifier=str(VERIFIER))
        assert {"TEN001", "LAY001", "BIA001", "VOC001", "VOC002", "NRM001"} & {f.code for f in report.findings}, (
            item.name
        )
    assert len(silent) >= 10
