"""`spectool serve --gpus`: what the speed range goes by, and what was measured beside it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Outcome, spectool
from production import Production, make_production

from spectool.cli.command_of import describe_pair
from spectool.cli.profiled import read_profile, speed_here
from spectool.cli.serve import Workload
from spectool.cli.sweep import show_profile
from spectool.errors import SourceError
from spectool.planning.gpus import Gpus, parse_gpus
from spectool.speed.published import WORKLOADS


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Production:
    return make_production("qwen3-8b-peagle", tmp_path_factory.mktemp("pair"))


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPECTOOL_ENGINE", raising=False)
    monkeypatch.setenv("PATH", "")


def serve(pair: Production, *more: str, gpus: str = "a100-80gb:1") -> Outcome:
    return spectool(
        "serve",
        str(pair.drafter),
        "--verifier",
        str(pair.verifier),
        "--gpus",
        gpus,
        "--dry-run",
        "--format=json",
        *more,
    )


def speed(pair: Production, *more: str, gpus: str = "a100-80gb:1") -> dict[str, Any]:
    done = serve(pair, *more, gpus=gpus)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)["plan"]["speed"]
    return found


def profile(folder: Path, drafter: Path, **changed: Any) -> Path:
    """The published curve of this pair as a profile: 2.77 at 3 requests, 2.02 at 15."""
    points = [
        {"k": 0, "requests": 3, "tokens_per_second": 100.0, "completed": 12},
        {"k": 7, "requests": 3, "tokens_per_second": 277.0, "tokens_per_round": 3.82, "completed": 12},
        {"k": 0, "requests": 15, "tokens_per_second": 100.0, "completed": 64},
        {"k": 7, "requests": 15, "tokens_per_second": 202.0, "tokens_per_round": 3.6, "completed": 64},
        {"k": 0, "requests": 64, "tokens_per_second": 100.0, "completed": 256},
        {"k": 7, "requests": 64, "tokens_per_second": 110.0, "tokens_per_round": 3.7, "completed": 256},
    ]
    about: dict[str, Any] = {
        "format": "spectool profile 1",
        "drafter": drafter.name,
        "verifier": "Qwen3-8B",
        "method": "peagle",
        "engine": "vllm 0.33.0",
        "device": "NVIDIA A100-SXM4-80GB",
        "workload": "ours.jsonl",
        "output_tokens": 128,
        "points": points,
    }
    path = folder / "profile.json"
    path.write_text(json.dumps(about | changed))
    return path


def test_the_options_are_the_known_workloads() -> None:
    assert tuple(Workload) == WORKLOADS


def test_a_workload_narrows_the_range_to_its_data_sets(pair: Production) -> None:
    anything, mathematics = speed(pair), speed(pair, "--workload", "math")
    assert "for any workload" in anything["basis"][0]
    assert "for math" in mathematics["basis"][0]
    wide, narrow = (found["by_requests"][0]["planned"] for found in (anything, mathematics))
    assert narrow["low"] > wide["low"]
    assert narrow["high"] / narrow["low"] < wide["high"] / wide["low"]


def test_a_workload_nobody_published_figures_for_is_named(pair: Production) -> None:
    # The drafter's card has no figure of chat.
    found = speed(pair, "--workload", "chat")
    assert found["predicted"] is ("for chat" in found["basis"][0])
    if not found["predicted"]:
        assert found["unknown"].endswith("at its K for chat")


def test_a_renamed_copy_is_told_what_it_looks_like(pair: Production, tmp_path: Path) -> None:
    """What was published is of a name: a folder of another one is shown it, and nothing is predicted from it."""
    copy = tmp_path / "drafter"
    shutil.copytree(pair.drafter, copy, ignore=shutil.ignore_patterns("*.safetensors"))
    for file in pair.drafter.glob("*.safetensors"):  # gigabytes, if copied
        (copy / file.name).symlink_to(file)
    renamed = replace(pair, drafter=copy)
    found = speed(renamed, "--workload", "math")
    assert found["predicted"] is False
    assert "it looks like RedHatAI/Qwen3-8B-speculator.peagle, which had 3.82 at K 7" in found["unknown"]
    assert "--expect LENGTH" in found["unknown"]
    config = json.loads((copy / "config.json").read_text())
    config["eagle_aux_hidden_state_layer_ids"] = [3, 18, 33]
    (copy / "config.json").write_text(json.dumps(config))
    assert speed(renamed, "--workload", "math")["unknown"].startswith("nobody published")


def test_a_workload_without_gpus_is_refused(pair: Production) -> None:
    done = spectool("serve", str(pair.drafter), "--verifier", str(pair.verifier), "--dry-run", "--workload", "code")
    assert done.code == 2
    assert "--workload goes with --gpus" in done.err


def test_an_expected_length_is_the_range_s_too(pair: Production) -> None:
    found = speed(pair, "--expect", "3.82", "--workload", "code")
    assert found["basis"][0] == "3.82 tokens per round, --expect at K = 7"
    two = next(row for row in found["by_requests"] if row["requests"] == 2)
    assert two["planned"]["low"] < 2.85 < two["planned"]["high"]


@pytest.mark.parametrize(("length", "code"), [("8", 0), ("8.01", 2)])
def test_an_impossible_length_is_refused(pair: Production, length: str, code: int) -> None:
    done = serve(pair, "--expect", length)
    assert done.code == code
    assert ("--expect: tokens per round of K = 7 lie between 1 and 8" in done.err) is (code == 2)


def test_what_was_measured_stands_beside_the_range_and_feeds_it(pair: Production, tmp_path: Path) -> None:
    path = profile(tmp_path, pair.drafter)
    found = speed(pair, "--profile", str(path))
    assert found["basis"][0] == (
        "3.60 to 3.82 tokens per round, measured with ours.jsonl at K = 7 on NVIDIA A100-SXM4-80GB"
    )
    three, fifteen, many = found["measured"]
    assert (three["requests"], three["k"], three["speedup"]) == (3, 7, 2.77)
    assert three["predicted"]["low"] < 2.77 < three["predicted"]["high"]
    assert fifteen["predicted"]["low"] < 2.02 < fifteen["predicted"]["high"]
    assert many["predicted"] is None  # beyond the loads that are predicted
    assert speed(pair, "--profile", str(path), "--expect", "3")["basis"][0].startswith(
        "3.00 tokens per round, --expect"
    )


def test_the_plot_shows_it_to_people(pair: Production, tmp_path: Path) -> None:
    done = serve(pair, "--profile", str(profile(tmp_path, pair.drafter)), "--format", "text")
    assert "measured (o) on NVIDIA A100-SXM4-80GB, vllm 0.33.0, ours.jsonl" in done.err
    lines = [line for line in done.err.splitlines() if " x K 7 " in line]
    assert ["predicted" in line for line in lines] == [True, True, False]
    assert all("o" in line for line in lines)


def test_the_page_draws_every_measured_point(pair: Production, tmp_path: Path) -> None:
    done = serve(pair, "--profile", str(profile(tmp_path, pair.drafter)), "--format", "html")
    assert done.out.count("<circle") == 3
    assert "64 at a time, K 7 measured 1.10, not predicted" in done.out
    three = re.search(r"3 at a time, K 7 (\d\.\d\d) to (\d\.\d\d), measured 2.77", done.out)
    assert three is not None
    assert float(three[1]) < 2.77 < float(three[2])


def test_where_nothing_is_predicted_the_measured_points_are_still_shown(pair: Production, tmp_path: Path) -> None:
    path = profile(tmp_path, pair.drafter, synthetic_acceptance=3.7)
    found = speed(pair, "--profile", str(path), gpus="l40s:1")
    assert found["unknown"].startswith("no kernel timings of l40s")
    assert [point["predicted"] for point in found["measured"]] == [None, None, None]
    done = serve(pair, "--profile", str(path), "--format", "text", gpus="l40s:1")
    assert "acceptance length 3.7 acted out" in done.err


def test_a_sweep_s_plot_shows_the_ranges_of_this_machine_s_gpus(
    pair: Production, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = read_profile(profile(tmp_path, pair.drafter))
    engine: Any = SimpleNamespace(version="0.32.0")
    described = describe_pair(str(pair.drafter), str(pair.verifier), None, [], force=False)

    def lines(gpus: str | None, *extra: str) -> list[str]:
        def here() -> Gpus:
            if gpus is None:
                raise SourceError("no GPU was found here")
            return parse_gpus(gpus)

        monkeypatch.setattr("spectool.own_gpus.this_machine", here)
        speed = speed_here(measured, engine, described, None, list(extra))
        assert (speed is None) is (gpus is None)
        show_profile(measured, tmp_path, engine.version, speed, as_json=False)
        return [line for line in capsys.readouterr().out.splitlines() if " x K 7 " in line]

    # Of eight GPUs vLLM takes one, unless it is told otherwise: two of them are another prediction.
    one, two = lines("a100-80gb:8"), lines("a100-80gb:8", "--tensor-parallel-size", "2")
    assert "2.77  predicted " in one[0]
    assert one[0] != two[0]
    assert ["predicted" in line for line in one] == [True, True, False]
    assert ["predicted" in line for line in lines("l40s:1")] == [False] * 3
    assert ["predicted" in line for line in lines(None)] == [False] * 3
