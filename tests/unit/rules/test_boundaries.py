"""Each rule: what makes it speak, and a near miss that differs in one value. No rule is without both."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from boundaries import BOUNDARIES, ELSEWHERE, Boundary
from launch_faults import LAUNCHES
from mutations import NATIVE, PAIRS, VERIFIER, folder, nothing, put

from spectool import api
from spectool.checkpoint import pickles
from spectool.checkpoint.pickles import TorchMissingError
from spectool.drafter.model import Markov
from spectool.engine.choice import choose
from spectool.engine.facts import engine_facts
from spectool.inspection import gather, inspect
from spectool.rules.registry import rules, run_rules

ROOT = Path(__file__).resolve().parents[3]
IDS = [f"{number}-{item.code}-{item.method}" for number, item in enumerate(BOUNDARIES)]


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The converted folder of a method's example pair."""
    root = tmp_path_factory.mktemp("converted")

    @cache
    def make(method: str) -> Path:
        settings = {"verifier": "spectool/tiny-verifier", **({"speculative_tokens": 5} if method == "peagle" else {})}
        plan = api.plan_conversion(str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), settings=settings)
        api.convert(plan, root / method)
        return root / method

    return make


def codes(item: Boundary, *, fires: bool, base: Path, tmp_path: Path) -> list[str]:
    change = item.fires if fires else item.misses
    of_drafter = item.of == "drafter"
    drafter = folder(base, tmp_path / "drafter", change if of_drafter else nothing)
    verifier = VERIFIER if of_drafter else folder(VERIFIER, tmp_path / "verifier", change)
    native_peagle = item.method == "peagle" and item.layout == "native"
    report = api.validate(
        str(drafter),
        verifier=str(verifier),
        settings={"speculative_tokens": 5} if native_peagle else None,
        engine=choose(item.engine[0 if fires else 1]),
    )
    return [finding.code for finding in report.findings]


@pytest.mark.parametrize("item", BOUNDARIES, ids=IDS)
def test_boundary(item: Boundary, tmp_path: Path, converted: Callable[[str], Path]) -> None:
    base = PAIRS / NATIVE[item.method] if item.layout == "native" else converted(item.method)
    assert item.code in codes(item, fires=True, base=base, tmp_path=tmp_path / "fires")
    assert item.code not in codes(item, fires=False, base=base, tmp_path=tmp_path / "misses")


def test_every_rule_has_a_fault_and_a_near_miss() -> None:
    tables = {item.code for item in BOUNDARIES} | {code for code, *_ in LAUNCHES}
    assert set(rules()) - tables - set(ELSEWHERE) == set()
    assert not set(ELSEWHERE) & tables


@pytest.mark.parametrize("place", sorted(set(ELSEWHERE.values())))
def test_what_is_shown_elsewhere_is(place: str) -> None:
    file, _, name = place.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), place


@pytest.mark.parametrize("there", [True, False])
def test_a_mask_embedding_that_is_not_read(there: bool, tmp_path: Path) -> None:
    drafter = folder(PAIRS / NATIVE["dspark"], tmp_path / "d", nothing)
    if there:
        (drafter / "mask_embedding.pt").write_bytes(b"")
    found = {item.code for item in api.validate(str(drafter), verifier=str(VERIFIER)).findings}
    assert ("MSK005" in found) is there


def test_a_part_that_torch_alone_reads_is_not_checked_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(file: Path) -> Any:
        raise TorchMissingError(f"{file}: reading this format needs torch")

    monkeypatch.setattr(pickles, "_torch", missing)
    drafter = folder(PAIRS / "dflash-zlab", tmp_path / "drafter", put("dflash_config.block_size", 8))
    with zipfile.ZipFile(drafter / "mask_embedding.pt", "w") as archive:
        archive.writestr("mask_embedding/data.pkl", b"")
    report = api.validate(str(drafter), verifier=str(VERIFIER))
    assert report.dialect == "MiMo DFlash"
    assert report.findings == ()
    assert [item.code for item in report.unknowns] == ["MSK005"]
    assert "mask_embedding.pt" in report.unknowns[0].missing
    # A conversion has to place what is in it.
    with pytest.raises(TorchMissingError):
        api.plan_conversion(str(drafter), verifier=str(VERIFIER))


@pytest.mark.parametrize("code", ["LAY004", "HED004"])
def test_differences_no_config_makes(code: str) -> None:
    """The two rules guard readings against each other; a config that parts them is another rule's business."""
    context = gather(inspect(str(PAIRS / "dspark-deepspec"), verifier=str(VERIFIER)), engine_facts(None))
    run = context.engine.drafter
    assert run is not None
    changed = {
        "LAY004": replace(run, dimensions=replace(run.dimensions, intermediate_size=257)),
        "HED004": replace(run, markov=Markov("vanilla", 31)),
    }
    for drafter, expected in ((run, []), (changed[code], [code])):
        seen = replace(context, engine=replace(context.engine, drafter=drafter))
        assert [finding.code for finding in run_rules(seen, codes=[code])[0]] == expected
