# ruff: noqa: E501 - tables: one case, one line
"""Rules about the flags of a launch: each speaks, and is silent about a launch that differs in one value."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import spectool
from launch_faults import LAUNCHES, MANY_GROUPS, Row
from mutations import NATIVE, PAIRS, VERIFIER, both, folder, nothing, put

from spectool import api
from spectool.engine.ask import Engine
from spectool.engine.choice import Choice
from spectool.engine.facts import engine_facts
from spectool.errors import SourceError, UsageError
from spectool.rules.launch import read_launch
from spectool.rules.registry import rules

IDS = [f"{number}-{code}-{method}" for number, (code, method, *_) in enumerate(LAUNCHES)]


def codes(item: Row, words: tuple[str, ...], tmp_path: Path) -> set[str]:
    code, method, _, _, of_verifier, of_drafter, gpus, engine = item
    drafter = PAIRS / NATIVE[method]
    verifier = VERIFIER
    if of_drafter is not nothing:
        drafter = folder(drafter, tmp_path / "drafter", of_drafter)
    if of_verifier is not nothing:
        verifier = folder(VERIFIER, tmp_path / "verifier", of_verifier)
    settings = {"speculative_tokens": 5} if method == "peagle" else None
    report = api.validate(
        str(drafter), verifier=str(verifier), settings=settings, engine=engine, launch=words, gpus=gpus
    )
    assert code not in {unknown.code for unknown in report.unknowns}
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("item", LAUNCHES, ids=IDS)
def test_a_launch_that_a_rule_speaks_about(item: Row, tmp_path: Path) -> None:
    assert item[0] in codes(item, item[2], tmp_path)


@pytest.mark.parametrize("item", LAUNCHES, ids=IDS)
def test_a_near_miss(item: Row, tmp_path: Path) -> None:
    assert item[0] not in codes(item, item[3], tmp_path)


@pytest.mark.parametrize("method", NATIVE)
def test_a_plain_launch_is_clean(method: str) -> None:
    words = ("--tensor-parallel-size", "2", "--max-num-seqs", "8", "--max-num-batched-tokens", "8192")
    settings = {"speculative_tokens": 5} if method == "peagle" else None
    report = api.validate(str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), settings=settings, launch=words)
    assert report.findings == ()


def test_drafter_layers_in_several_caches(tmp_path: Path) -> None:
    said = {}
    one_group = ("--disable-hybrid-kv-cache-manager",)
    for name, kind, words in (("mixed", "gpt_oss", ()), ("full", "llama", ()), ("one group", "gpt_oss", one_group)):
        verifier = folder(
            VERIFIER, tmp_path / name, both(MANY_GROUPS, put("model_type", kind), put("max_window_layers", 6))
        )
        report = api.validate(
            str(PAIRS / "peagle-native"), verifier=str(verifier), settings={"speculative_tokens": 5}, launch=words
        )
        said[name] = {finding.code for finding in report.findings}
    assert said == {"mixed": {"CAC001"}, "full": set(), "one group": set()}


def test_drafter_of_layers_that_differ_wants_one_group(tmp_path: Path) -> None:
    # vLLM 0.32 run: without the flag an AssertionError at the first request, with it drafts.
    drafter = folder(
        PAIRS / "peagle-native",
        tmp_path / "drafter",
        both(put("layer_types", ["sliding_attention", "full_attention"]), put("sliding_window", 16)),
    )
    said = {}
    for words in (None, (), ("--disable-hybrid-kv-cache-manager",)):
        report = api.validate(str(drafter), verifier=str(VERIFIER), settings={"speculative_tokens": 5}, launch=words)
        said[words] = [finding.code for finding in report.findings if finding.severity != "note"]
    assert said == {None: ["ATT003"], (): ["ATT003"], ("--disable-hybrid-kv-cache-manager",): []}


def test_more_tokens_than_the_file_was_trained_for(tmp_path: Path) -> None:
    plan = api.plan_conversion(
        str(PAIRS / "peagle-native"), verifier=str(VERIFIER), settings={"speculative_tokens": 5, "verifier": "a/b"}
    )
    api.convert(plan, tmp_path / "out")
    for tokens, expected in ((6, ["SLT005"]), (5, [])):
        words = ("-sc", f'{{"num_speculative_tokens": {tokens}}}')
        report = api.validate(str(tmp_path / "out"), verifier=str(VERIFIER), launch=words)
        assert [finding.code for finding in report.findings] == expected


def test_without_flags_nothing_is_said_of_a_launch() -> None:
    report = api.validate(str(PAIRS / "dflash-zlab"), verifier=str(VERIFIER))
    launch = {code for code, rule in rules().items() if rule.scope == "launch"}
    assert not launch & set(report.checked)


@pytest.mark.parametrize(
    ("words", "keys", "doubled"),
    [
        (("--speculative-config", '{"num-speculative-tokens": 3}'), {"num_speculative_tokens": 3}, ()),
        (("-sc", '{"a": 1}', "--seed", "1"), {"a": 1}, ()),
        (("-sc.method", "dflash", "-sc.num_speculative_tokens", "3"), {"method": "dflash", "num_speculative_tokens": 3}, ()),
        # Keys behind two spellings make two objects, of which the last one counts.
        (("--speculative-config.method", "dflash", "-sc.num_speculative_tokens", "3"), {"num_speculative_tokens": 3}, ()),
        # A dotted flag replaces the object of the other one.
        (("-sc", '{"a": 1}', "-sc.b", "2"), {"b": 2}, ()),
        (("--spec-method=dflash", "--spec-tokens=3"), {"method": "dflash", "num_speculative_tokens": 3}, ()),
        (("-sc", '{"method": "dflash"}', "--spec-method", "dspark"), {"method": "dspark"}, ("method",)),
        (("vllm", "serve", "org/verifier", "--spec_tokens", "3"), {"num_speculative_tokens": 3}, ()),
        (("A=b", "C=d=e", "/opt/bin/vllm", "serve", "x", "-sc.draft_load_config.x", "1"), {"draft_load_config": {"x": 1}}, ()),
        ((), {}, ()),
    ],
)  # fmt: skip
def test_speculative_keys(words: tuple[str, ...], keys: dict[str, object], doubled: tuple[str, ...]) -> None:
    launch = read_launch(words)
    assert (dict(launch.speculative), launch.doubled) == (keys, doubled)


def test_a_flag_file(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text("max-num-seqs: 7\nenable-lora: true\nenable-dbo: false\nspeculative-config:\n  a: 1\n")
    launch = read_launch(("--config", str(path), "--max-num-seqs", "9"))
    assert launch.own.sequences == 9
    assert launch.has("--enable-lora")
    assert launch.has("--no-enable-dbo")
    assert not launch.has("--enable-dbo")
    with pytest.raises(SourceError):
        read_launch(("--config", str(tmp_path / "none.yaml")))


@pytest.mark.parametrize("words", [("-sc", "[1]"), ("-sc", "{"), ("--max-num-seqs", "many"), ("--config",)])
def test_words_that_cannot_be_read(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        read_launch(words)


def test_on_the_command_line() -> None:
    pair = ("validate", str(PAIRS / "dflash-zlab"), "--verifier", str(VERIFIER))
    outcome = spectool(*pair, "--", "--tensor-parallel-size", "3")
    assert (outcome.code, "PAR001" in outcome.out) == (1, True)
    assert spectool(*pair, "--", "--tensor-parallel-size", "2").code == 0
    assert spectool(*pair, "--tensor-parallel-size", "2").code == 2
    assert spectool(*pair, "--gpus", "no-such-gpu:1").code == 2


def test_the_installed_engine_without_triton_runs_no_dspark() -> None:
    for triton, expected in ((False, {"RUN001"}), (True, set())):
        engine = Engine(Path("/e/python"), "0.33.0", "vllm", "cpu", None, triton, 0, ())
        choice = Choice(engine_facts("0.33.0"), "0.33.0", engine)
        report = api.validate(str(PAIRS / "dspark-deepspec"), verifier=str(VERIFIER), engine=choice)
        assert {finding.code for finding in report.findings} == expected


@pytest.mark.parametrize("value", ["[]", "{}", "null", "true", "1e400", '"x"', "-1", "[[1, {}]]"])
def test_no_value_of_a_key_is_a_crash(value: str) -> None:
    keys = engine_facts("0.33.0").speculative_config_keys
    words = ("-sc", "{" + ", ".join(f'"{key}": {value}' for key in sorted(keys)) + "}")
    for method in NATIVE:
        api.validate(str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), launch=words)
