"""Plans and launch rules against the engine: its own parser takes every flag, its own configuration stops where a rule
speaks and goes on where none does, and its own functions count the same KV cache.

vLLM 0.32 from the engine environment; of 0.33 the parser's option strings are stored (`tests/golden/vllm-flags`).
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import spectool
from launches import Asked, hold, launches
from oracle import Verdict, judge

from spectool.planning.kv_capacity import capacity
from spectool.planning.kv_groups import CacheLayer, UngroupableError

HARNESS = Path(__file__).parent / "harness"
CASES = 400
# Where vLLM's own configuration decides, from parallelism to backends; `make conformance` asks about all of them.
SLICE = ("PAR001", "PAR002", "RUN001", "RUN002", "SPC003", "SPC005", "ADV004", "BUD005", "FEA002", "BKD001")
SHOWN = [
    *("speculative_config", "tensor_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens"),
    *("nnodes", "node_rank", "headless", "shutdown_timeout", "pipeline_parallel_size"),
]


@pytest.fixture(scope="module")
def plans(root: Path) -> dict[str, dict[str, Any]]:
    folder = root / "tests" / "golden" / "plans"
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    assert len(found) >= 3
    return found


def ask(engine_python: Path, script: str, question: Any) -> Any:
    done = subprocess.run(
        [str(engine_python), str(HARNESS / script)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert lines, done.stderr[-3000:]
    return json.loads(lines[-1].removeprefix("ANSWER "))


@pytest.fixture(scope="module")
def emitted(plans: dict[str, dict[str, Any]], pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Every command spectool writes, as words after `vllm serve`: the plans', two machines', and a flag file."""
    serve = ["serve", str(pairs / "dflash-zlab"), "--verifier", "spectool/tiny-verifier@0123abc"]
    flag_file = tmp_path_factory.mktemp("flags") / "vllm.yaml"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPECTOOL_ENGINE", raising=False)
        patch.setenv("PATH", "")
        flag_file.write_text(spectool(*serve, "--emit", "vllm-config", "--", "--max-model-len", "512").out)
        serve = ["serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), "--gpus", "a100-80gb:2x2"]
        several = spectool(*serve, "--dry-run", "--format", "json", "--", "--pipeline-parallel-size", "2")
    machines = json.loads(several.out)["machines"]
    commands = [plan["argv"] for plan in plans.values()] + [machine["argv"] for machine in machines]
    assert all(words[:2] == ["vllm", "serve"] for words in commands)
    return [*(words[2:] for words in commands), ["--config", str(flag_file)]]


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> list[Asked]:
    """A slice of the launches of `make conformance`: a fault and its near miss for each of these rules."""
    asked = launches(tmp_path_factory.mktemp("launched"), SLICE)
    first = {code: next(item.name.split(",")[0] for item in asked if item.code == code) for code in SLICE}
    return [item for item in asked if item.name.split(",")[0] == first[item.code]]


@pytest.fixture(scope="module")
def verdicts(
    engine_python: Path, emitted: list[list[str]], launched: list[Asked], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Verdict]:
    """One engine for all of them: importing it takes longer than the answers."""
    wanted = {"parse_only": True, "show": SHOWN}
    cases = [{"id": str(index), "argv": words, **wanted} for index, words in enumerate(emitted)]
    cases += [item.case for item in launched]
    return judge(engine_python, cases, tmp_path_factory.mktemp("oracle"))


def test_the_engine_stops_where_a_launch_rule_says_so(launched: list[Asked], verdicts: dict[str, Verdict]) -> None:
    said = [hold(item, verdicts[item.name]) for item in launched]
    assert [(item.asked.name, item.wrong) for item in said if item.wrong] == []
    stopped = {item.asked.code for item in said if item.asked.fires and item.stage != "ok"}
    assert stopped == set(SLICE)
    assert all(item.stage == "ok" for item in said if not item.asked.fires)


def test_the_engines_parser_takes_every_emitted_command(
    plans: dict[str, dict[str, Any]], emitted: list[list[str]], verdicts: dict[str, Verdict]
) -> None:
    answers = [verdicts[str(index)] for index in range(len(emitted))]
    assert [answer["root"] for answer in answers if not answer["ok"]] == []
    *parsed, head, worker, from_file = (answer["extra"]["parsed"] for answer in answers)
    assert [(values["nnodes"], values["node_rank"], values["headless"]) for values in (head, worker)] == [
        (2, 0, False),
        (2, 1, True),
    ]
    assert (worker["tensor_parallel_size"], worker["pipeline_parallel_size"]) == (2, 2)
    assert from_file["max_model_len"] == 512
    assert from_file["shutdown_timeout"] == 50
    assert from_file["speculative_config"]["num_speculative_tokens"] == 7
    for plan, values in zip(plans.values(), parsed, strict=True):
        assert values["tensor_parallel_size"] == plan["plan"]["tensor_parallel_size"]
        assert values["max_model_len"] == plan["plan"]["max_model_len"]
        assert values["max_num_batched_tokens"] == plan["plan"]["budget"]["max_num_batched_tokens"]
        assert values["max_num_seqs"] == plan["plan"]["budget"]["max_num_seqs"]
        assert values["speculative_config"]["num_speculative_tokens"] == plan["plan"]["speculative_tokens"]


def test_the_engine_counts_the_same_tokens(engine_python: Path) -> None:
    """Random mixtures of full, sliding, latent and recurrent layers, many of which vLLM pads or refuses."""
    chance = random.Random(20261129)  # noqa: S311 - the same mixtures every time
    cases = [mixture(chance) for _ in range(CASES)]
    answers = ask(engine_python, "kv_oracle.py", cases)
    refused = 0
    for case, expected in zip(cases, answers, strict=True):
        layers = [layer_of(entry) for entry in case["layers"]]
        try:
            found = capacity(layers, case["pool"], case["length"], case["in_flight"])
        except UngroupableError:
            assert expected is None, case
            refused += 1
        else:
            assert [found.tokens, len(found.groups)] == expected, case
    assert 0 < refused < CASES // 2


def mixture(chance: random.Random) -> dict[str, Any]:
    layers: list[dict[str, Any]] = []
    for _ in range(chance.randint(1, 4)):
        layer: dict[str, Any] = {
            "kind": chance.choice(["full", "full", "sliding", "sliding", "mla", "state"]),
            "heads": chance.choice([1, 2, 3, 4, 8, 16]),
            "dim": chance.choice([64, 80, 128, 256, 512]),
            "element": chance.choice([1, 2]),
            "block": chance.choice([16, 16, 16, 32, 48, 64]),
            "window": chance.choice([128, 1024, 2048]),
            "states": chance.randint(1, 9),
        }
        if layer["kind"] == "mla":
            layer |= {"heads": 1, "dim": 576}
        layer["bytes"] = layer["heads"] * layer["dim"] * 128
        layer["padded"] = chance.choice([0, max(2**21, layer["bytes"])])
        layers += [layer] * chance.randint(1, 30)
    return {
        "layers": layers,
        "pool": chance.choice([5, 40, 77]) * 2**30 + chance.randint(0, 10**6),
        "length": chance.choice([1000, 40960, 131072]),
        "in_flight": chance.choice([2048, 8192, 32768]),
    }


def layer_of(entry: dict[str, Any]) -> CacheLayer:
    if entry["kind"] == "state":
        return CacheLayer(
            "state",
            1,
            entry["bytes"],
            entry["block"],
            states=entry["states"],
            padded=entry["padded"],
            geometry=str(entry["bytes"]),
        )
    width = entry["dim"] if entry["kind"] == "mla" else 2 * entry["dim"]
    return CacheLayer(
        entry["kind"],
        entry["heads"],
        width * entry["element"],
        entry["block"],
        window=entry["window"] if entry["kind"] == "sliding" else 0,
        geometry=f"{entry['dim']} x {entry['element']}",
    )


def test_every_emitted_flag_is_one_of_vllm_033(plans: dict[str, dict[str, Any]], root: Path) -> None:
    stored = json.loads((root / "tests/golden/vllm-flags/0.33.0.json").read_text(encoding="utf-8"))
    for plan in plans.values():
        for entry in plan["flags"][1:]:
            assert shlex.split(entry["flag"])[0] in stored["flags"]
