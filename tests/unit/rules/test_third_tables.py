"""The tables that `make conformance` puts to vLLM: spectool's side of the third ones, and the law over them all."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance_rules import FEWEST, WHY_NOT, mutations_by_rule
from launches import Asked
from mutations import NATIVE, PAIRS, VERIFIER
from third_faults import THIRD_FAULTS, Third
from third_launches import third_launches
from third_runs import laid, said_of

from spectool import api
from spectool.rules.registry import rules


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """The good folders: native, and converted."""
    root = tmp_path_factory.mktemp("converted")
    found = {("native", method): PAIRS / source for method, source in NATIVE.items()}
    for method, source in NATIVE.items():
        settings = {"verifier": "spectool/tiny-verifier", **({"speculative_tokens": 5} if method == "peagle" else {})}
        api.convert(api.plan_conversion(str(PAIRS / source), verifier=str(VERIFIER), settings=settings), root / method)
        found["converted", method] = root / method
    return found


@pytest.mark.parametrize("item", THIRD_FAULTS, ids=[item.name for item in THIRD_FAULTS])
def test_exactly_its_rules_speak(item: Third, bases: dict[tuple[str, str], Path], tmp_path: Path) -> None:
    pair = laid(item, bases[item.layout, item.method], tmp_path / "pair")
    assert said_of(item, *pair) == {item.code} | item.also


def speaks(asked: Asked) -> bool:
    """Whether the row's rule speaks at the release that is asked."""
    report = api.validate(
        str(asked.drafter),
        verifier=str(asked.verifier),
        settings={"speculative_tokens": 5} if asked.method == "peagle" else None,
        engine="0.32.0",
        launch=asked.words,
        gpus=asked.gpus,
    )
    return asked.code in {finding.code for finding in report.findings}


def test_a_launch_is_spoken_of_and_its_near_miss_is_not(tmp_path: Path) -> None:
    wrong = [asked.name for asked in third_launches(tmp_path) if speaks(asked) != asked.fires]
    assert wrong == []


def test_every_rule_has_three_mutations_or_a_reason_why_not() -> None:
    found = mutations_by_rule()
    few = {code: found[code] for code in rules() if found[code] < FEWEST and code not in WHY_NOT}
    assert few == {}, "add faults to tests/support/third_faults.py or third_launches.py"


def test_no_reason_is_left_of_a_rule_that_has_them() -> None:
    found = mutations_by_rule()
    assert [code for code in WHY_NOT if found[code] >= FEWEST or code not in rules()] == []
