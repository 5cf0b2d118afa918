"""A measured profile: what it says, and what serving makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import spectool
from pydantic import ValidationError

from spectool.cli.profiled import measured_flags, read_profile
from spectool.errors import CannotRunError, RefusedError, SourceError, UsageError
from spectool.formats.profile import Profile
from spectool.serving.bench import point_of
from spectool.speed.profile import choose, measured_tokens, plot, speedups
from spectool.speed.sweep import counts, points


def profile(speeds: dict[tuple[int, int], float], **changed: Any) -> Profile:
    """A profile with these tokens per second by (K, requests)."""
    entries = [
        {"k": k, "requests": load, "tokens_per_second": speed, "completed": 4} for (k, load), speed in speeds.items()
    ]
    about: dict[str, Any] = {
        "format": "spectool profile 1",
        "drafter": "drafter",
        "verifier": "verifier",
        "method": "dflash",
        "engine": "vllm 0.33.0",
        "device": "NVIDIA A100",
        "workload": "prompts.txt",
        "output_tokens": 32,
        "points": entries,
    }
    return Profile.model_validate(about | changed)


FALLING = {(0, 1): 100.0, (3, 1): 200.0, (7, 1): 250.0, (0, 16): 800.0, (3, 16): 1200.0, (7, 16): 900.0}


def test_speedups_are_over_the_verifier_alone_at_the_same_load() -> None:
    assert speedups(profile(FALLING)) == {1: {0: 1.0, 3: 2.0, 7: 2.5}, 16: {0: 1.0, 3: 1.5, 7: 1.125}}


def test_k_by_load_where_vllm_follows_it() -> None:
    choice = choose(profile(FALLING), "0.33.0")
    assert (choice.k, choice.schedule) == (7, ((1, 4, 7), (5, 4096, 3)))


@pytest.mark.parametrize(
    ("version", "method", "copies"), [("0.23.0", "dflash", 1), ("0.33.0", "peagle", 1), ("0.33.0", "dflash", 2)]
)
def test_else_the_k_that_loses_least(version: str, method: str, copies: int) -> None:
    # K = 3 gives 80 % of the best at one request; K = 7 gives 75 % of the best at sixteen.
    choice = choose(profile(FALLING, method=method), version, copies)
    assert (choice.k, choice.schedule) == (3, ())


def test_a_drafter_that_never_pays() -> None:
    choice = choose(profile({(0, 1): 100.0, (7, 1): 99.0}), "0.33.0")
    assert choice.k == 0
    assert "serve the verifier without it" in choice.reasons[-1]


def test_without_the_verifier_alone_nothing_can_be_said() -> None:
    with pytest.raises(ValueError, match="with and without"):
        choose(profile({(7, 1): 99.0}), "0.33.0")


def test_a_speed_up_above_the_tokens_per_round_is_no_measurement() -> None:
    entries = [
        {"k": 0, "requests": 1, "tokens_per_second": 8.0, "completed": 4},
        {"k": 7, "requests": 1, "tokens_per_second": 31.0, "tokens_per_round": 1.77, "completed": 4},
    ]
    with pytest.raises(ValueError, match="which cannot be"):
        choose(profile({}, points=entries), "0.33.0")
    entries[1]["tokens_per_round"] = 3.875  # exactly as much as the speed-up
    assert choose(profile({}, points=entries), "0.33.0").k == 7


def test_the_plot_marks_points_ranges_and_one() -> None:
    lines = plot({(16, 7): 1.125, (1, 7): 2.5}, {(1, 7): (2.0, 2.4)})
    assert lines[0].startswith("   1 x K 7 ")
    assert lines[0].index("|") < lines[0].index("---") < lines[0].index("o")
    assert lines[0].endswith("2.50  predicted 2.00-2.40")
    assert "-" not in lines[1].partition("]")[0]
    assert plot({}, {}) == []


def test_tokens_of_a_profile_are_those_of_the_nearest_k_above() -> None:
    def at(k: int, load: int, rate: float | None) -> dict[str, object]:
        return {"k": k, "requests": load, "tokens_per_second": 1.0, "tokens_per_round": rate, "completed": 1}

    found = profile({}, points=[at(0, 1, None), at(3, 1, 2.0), at(7, 1, 3.0), at(7, 4, 2.5), at(7, 8, None)])
    seven, four, three = (measured_tokens(found, k) for k in (7, 4, 3))
    assert seven is not None
    assert (seven.low, seven.high, seven.k) == (2.5, 3.0, 7)
    assert seven.basis == "measured with prompts.txt at K = 7 on NVIDIA A100"
    assert four == seven
    assert three is not None
    assert (three.low, three.k) == (2.0, 3)
    assert measured_tokens(found, 8) is None
    assert measured_tokens(found, 0) is None


def test_flags_of_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(profile(FALLING).model_dump_json())
    words = measured_flags(["--port", "1"], path, "org/drafter@main", "dflash", None)
    assert words[:3] == ["--port", "1", "--speculative-config"]
    assert json.loads(words[3]) == {
        "num_speculative_tokens": 7,
        "num_speculative_tokens_per_batch_size": [[1, 4, 7], [5, 4096, 3]],
    }
    own = measured_flags(["--speculative-config", '{"num_speculative_tokens": 2}'], path, "drafter", "dflash", "0.23.0")
    assert json.loads(own[1]) == {"num_speculative_tokens": 2}


def test_a_profile_of_another_drafter_or_a_losing_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(profile(FALLING).model_dump_json())
    with pytest.raises(UsageError, match="was measured with drafter"):
        measured_flags([], path, "other", "dflash", None)
    path.write_text(profile({(0, 1): 100.0, (7, 1): 99.0}).model_dump_json())
    with pytest.raises(RefusedError, match="slower"):
        measured_flags([], path, "drafter", "dflash", None)


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", '{"format": "spectool profile 2"}'])
def test_what_is_no_profile_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(SourceError, match="is no spectool profile"):
        read_profile(path)


def test_a_point_may_not_stand_in_it_twice() -> None:
    entry = {"k": 0, "requests": 1, "tokens_per_second": 1.0, "completed": 1}
    with pytest.raises(ValidationError, match="twice"):
        profile({}, points=[entry, entry])


def test_the_verifier_alone_is_measured_first_then_the_planned_k() -> None:
    assert points([3, 5], [1, 4], 7, 5) == [(0, 1), (0, 4), (7, 1), (7, 4), (5, 1)]
    with pytest.raises(UsageError, match="above 7"):
        points([8], [1], 7, 5)


@pytest.mark.parametrize("text", ["", "1,", "x", "0", "1,-2", "9" * 300])
def test_what_is_no_list_of_loads(text: str) -> None:
    with pytest.raises(UsageError, match="--sweep-requests"):
        counts(text, "--sweep-requests", 1)


def test_a_result_of_bench_serve() -> None:
    text = json.dumps({"output_throughput": 12.5, "completed": 4, "failed": 0, "spec_decode_acceptance_length": 2.5})
    assert point_of(text, 7, 2).tokens_per_round == 2.5
    assert point_of(text, 0, 2).tokens_per_round is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"output_throughput": NaN, "completed": 1}',
        '{"output_throughput": 1, "completed": 1, "failed": 1}',
    ],
)
def test_a_result_that_cannot_be_used(text: str) -> None:
    with pytest.raises(CannotRunError):
        point_of(text, 7, 1)


def test_random_tokens_are_refused_for_acceptance(root: Path, tmp_path: Path) -> None:
    pairs = root / "examples" / "pairs"
    pair = (str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"))
    for more in ((), ("--prompts", "random")):
        done = spectool("probe", *pair, "--sweep", str(tmp_path / "out"), *more)
        assert done.code == 2
        assert "random tokens" in done.err
        assert not (tmp_path / "out").exists()
