"""The evaluation's own files: what is printed is what was found, and every point can be traced."""

import json
import math
from statistics import median

import pytest
from evaluation.fitting import NAMES, START, predicted
from evaluation.learning import half_width
from evaluation.points import HERE, Point, blind_points, points, raw

from spectool.planning.gpus import catalogue
from spectool.resources import package_data
from spectool.speed.evidence import KINDS, LOADS, MOST_WIDTH, evidence
from spectool.speed.machines import machine_names, machine_of
from spectool.speed.published import WORKLOADS, published
from spectool.speed.tokens import acceptance_of, shorten


def test_every_printed_range_is_narrow_enough() -> None:
    known = evidence()
    assert known.cells
    for kind, _ in known.cells:
        assert math.exp(2 * known.half) <= MOST_WIDTH[kind]


def test_a_load_ends_where_the_next_begins() -> None:
    known = evidence()
    assert known.load_of(LOADS["high"] - 0.01) == "low"
    assert known.load_of(LOADS["high"]) == "high"


def test_constants_are_those_that_are_fitted() -> None:
    found = set(json.loads(package_data("speed", "constants.json").read_text())["constants"])
    assert found == set(START)


def test_machines_are_in_the_catalogue() -> None:
    assert set(machine_names()) <= {gpu.name for gpu in catalogue()}


def test_unknown_gpus_and_sizes_are_no_machine() -> None:
    assert machine_of("rtx-4090", 1) is None
    assert machine_of("a100-80gb", 3) is None
    assert machine_of("a100-80gb", 1) is not None


def test_points_name_their_source_and_are_possible() -> None:
    assert len(points()) == 266
    for point in points():
        assert 1 <= point.tokens_per_round <= point.k + 1
        assert point.speedup > 0
    assert {item["group"] for item in raw()} == set(json.loads(_speedups())["sources"])


def _speedups() -> str:
    return (HERE / "speedups.json").read_text(encoding="utf-8")


def test_blind_points_took_no_part() -> None:
    def key(point: Point) -> tuple[object, ...]:
        return point.machine, point.target_name, point.drafter, point.dataset, point.k, point.requests

    assert len(blind_points()) == 14
    assert not {point.group for point in blind_points()} & {item["group"] for item in raw()}
    assert not set(map(key, blind_points())) & set(map(key, points()))


def test_what_is_printed_held_without_its_publication() -> None:
    known = evidence()
    assert (known.tables, known.publications) == (
        len({point.group for point in points()}),
        len({point.publication for point in points()}),
    )
    page = (HERE.parents[1] / "docs" / "speed.md").read_text(encoding="utf-8")
    for kind in KINDS:
        held = known.held[kind]
        assert held is not None
        assert 0.75 <= held <= 0.9
        assert f"| {held:.0%} |" in page


def _left_out(residuals: dict[str, list[float]]) -> dict[Point, float]:
    """Real points of as many publications, with these residuals."""
    names = sorted({point.publication for point in points()})
    members = {name: [point for point in points() if point.publication == name] for name in names}
    return {
        members[name][at]: value
        for name, values in zip(names, residuals.values(), strict=False)
        for at, value in enumerate(values)
    }


def test_every_publication_counts_once_and_few_ask_for_more_width() -> None:
    two = half_width(_left_out({"a": [0.1], "b": [0.1, -0.1, 0.1, -0.1]}))
    three = half_width(_left_out({"a": [0.1], "b": [0.1], "c": [0.1]}))
    assert two == pytest.approx(0.1 * 1.886)
    assert three == pytest.approx(0.1 * 1.638)
    many = half_width(_left_out({"a": [0.2], "b": [0.1] * 10}))
    assert many == pytest.approx(1.886 * math.sqrt((0.2**2 + 0.1**2) / 2))


def test_one_publication_is_no_width() -> None:
    assert half_width(_left_out({"a": [0.1, 0.2]})) == math.inf


def test_in_sample_the_model_errs_by_less_than_a_tenth() -> None:
    values = json.loads(package_data("speed", "constants.json").read_text())["constants"]
    vector = [math.log(values[name] or 0.637e-3) for name in NAMES]
    assert median(abs(predicted(point, vector) / point.speedup - 1) for point in points()) < 0.1


def test_published_tokens_by_workload() -> None:
    peagle = ["RedHatAI/Qwen3-8B-speculator.peagle"]
    mathematics, anything = published(peagle, "math"), published(peagle, None)
    assert mathematics is not None
    assert anything is not None
    # One data set does not show a spread: it is widened to the usual one, around its middle.
    assert mathematics.low * mathematics.high == pytest.approx(3.82**2)
    assert mathematics.high / mathematics.low == pytest.approx(1.3)
    assert "widened" in mathematics.basis
    assert "widened" not in anything.basis
    assert (anything.low, anything.high) == (2.48, 3.82)


def test_a_folder_named_like_the_repository_is_enough() -> None:
    assert published(["Qwen3-8B-speculator.peagle"], "code") == published(
        ["RedHatAI--Qwen3-8B-speculator.peagle"], "code"
    )


@pytest.mark.parametrize(
    ("names", "workload", "least_k"),
    [(["nobody/unknown"], None, 1), (["RedHatAI/Qwen3-8B-speculator.peagle"], "math", 8), ([], None, 1)],
)
def test_what_is_not_published_is_none(names: list[str], workload: str | None, least_k: int) -> None:
    assert published(names, workload, least_k) is None


def test_every_row_has_a_known_workload() -> None:
    rows = json.loads(package_data("speed", "acceptance.json").read_text())["rows"]
    assert {row["workload"] for row in rows} == set(WORKLOADS)
    assert all(1 <= row["tokens"] <= row["k"] + 1 for row in rows)


def test_shortening_gives_published_rates_at_three_within_five_per_cent() -> None:
    # Qwen3-8B P-EAGLE on HumanEval: unconditional rates .813 .590 .411 ..., 3.50 tokens per round at K = 7.
    assert shorten(3.50, 7, 3) == pytest.approx(1 + 0.813 + 0.590 + 0.411, rel=0.05)


@pytest.mark.parametrize(("tokens", "k"), [(0.99, 7), (8.01, 7), (math.nan, 7)])
def test_impossible_tokens_per_round_are_refused(tokens: float, k: int) -> None:
    with pytest.raises(ValueError, match="lie between 1"):
        acceptance_of(tokens, k)


def test_k_above_the_measured_one_is_refused() -> None:
    with pytest.raises(ValueError, match="above the measured"):
        shorten(3.0, 7, 8)
