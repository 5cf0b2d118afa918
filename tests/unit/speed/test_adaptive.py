"""Adaptive verification is advised only where its conditions hold: a firing case and a near miss of each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from plan_drafters import drafter_with

from spectool.drafter.model import Confidence, Drafter
from spectool.engine.facts import engine_facts, known_versions
from spectool.planning.models import Model, model_of
from spectool.rules.launch import read_launch
from spectool.speed.adaptive import KEY, Adaptive, adaptive, graphs, refused, stopped

HOPPER, AMPERE, BLACKWELL, CONSUMER = (9, 0), (8, 0), (10, 0), (12, 0)
VERIFIER: dict[str, Any] = {"model_type": "qwen3", "head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 8}


def model(**changed: Any) -> Model:
    return model_of("org/verifier", VERIFIER | changed)


def sc(**keys: Any) -> tuple[str, str]:
    return ("--speculative-config", json.dumps(keys))


def judged(
    drafter: Drafter,
    *words: str,
    release: str = "0.33.0",
    capability: tuple[int, int] = HOPPER,
    verifier: Model | None = None,
    measured: bool = False,
) -> Adaptive:
    found = adaptive(
        engine_facts(release), drafter, verifier or model(), capability, read_launch(words), measured=measured
    )
    assert found is not None
    return found


@pytest.fixture
def drafter() -> Drafter:
    return replace(drafter_with(), method="dspark", confidence=Confidence(with_markov=True))


def test_where_every_condition_holds_each_is_named(drafter: Drafter) -> None:
    found = judged(drafter)
    assert found.holds
    assert found.reasons == (
        "vLLM 0.33.0 has it",
        "the drafter has a confidence head",
        "CUDA graphs are FULL_AND_PIECEWISE",
        "FLASH_ATTN replays them at any number of drafts on compute capability 9.0",
        "no adapters, pipeline stages or copies",
    )
    assert f'{{"{KEY}": true}}' in found.line


@pytest.mark.parametrize("method", ["dflash", "peagle"])
def test_other_methods_are_not_judged(drafter: Drafter, method: Any) -> None:
    other = replace(drafter, method=method)
    assert adaptive(engine_facts(), other, model(), HOPPER, read_launch(()), measured=False) is None


@pytest.mark.parametrize(("release", "holds"), [("0.27.1", False), ("0.28.0", True)])
def test_the_release_has_it(drafter: Drafter, release: str, *, holds: bool) -> None:
    found = judged(drafter, release=release)
    assert found.holds is holds
    assert holds or "0.28 brought it" in found.line


@pytest.mark.parametrize(("release", "holds"), [("0.29.0", False), ("0.30.0", True)])
def test_a_drafter_without_confidence_head_needs_the_estimator(drafter: Drafter, release: str, *, holds: bool) -> None:
    found = judged(replace(drafter, confidence=None), release=release)
    assert found.holds is holds
    assert ("a drafter without confidence head" in found.line) is not holds
    assert ("estimated while serving" in found.line) is holds


AGAINST: list[tuple[tuple[str, ...], tuple[str, ...], str]] = [
    (("--enable-lora",), ("--no-enable-lora",), "--enable-lora"),
    (("-pp=2",), ("-pp=1",), "pipeline stages"),
    (("-dp=2",), ("-dp=1",), "data parallelism"),
    (("--enforce-eager",), ("--no-enforce-eager",), "without full CUDA graphs"),
    (("-O0",), ("-O3",), "without full CUDA graphs"),
    (("-cc.cudagraph_mode=PIECEWISE",), ("-cc.cudagraph_mode=FULL",), "without full CUDA graphs"),
    (("--enable-return-routed-experts",), ("--no-enable-return-routed-experts",), "--enable-return-routed-experts"),
    (("--return-sampling-mask",), ("--no-return-sampling-mask",), "--return-sampling-mask"),
    (("VLLM_USE_V2_MODEL_RUNNER=0",), ("VLLM_USE_V2_MODEL_RUNNER=1",), "model runner V2"),
    (("--enable-dbo",), ("--no-enable-dbo",), "model runner V2"),
    (("-dcp=2",), ("-dcp=1",), "--decode-context-parallel-size"),
    (("-pcp=2",), ("-pcp=1",), "--prefill-context-parallel-size"),
    (
        sc(num_speculative_tokens_per_batch_size=[[1, 8, 7], [9, 64, 3]]),
        sc(num_speculative_tokens=7),
        "num_speculative_tokens_per_batch_size chooses K already",
    ),
    (("--kv-cache-dtype=fp8",), ("--kv-cache-dtype=auto",), "--kv-cache-dtype fp8"),
    (("--attention-config={}",), ("--seed=1",), "--attention-config"),
    (("--attention-backend=FLASHINFER",), ("--attention-backend=FLASH_ATTN",), "FLASHINFER on compute capability 9.0"),
    (("--attention-backend=TURBOQUANT",), ("--attention-backend=auto",), "whether TURBOQUANT can do it"),
]


@pytest.mark.parametrize(("fires", "misses", "why"), AGAINST, ids=[item[2] for item in AGAINST])
def test_what_a_launch_asks_for(drafter: Drafter, fires: tuple[str, ...], misses: tuple[str, ...], why: str) -> None:
    found = judged(drafter, *fires)
    assert not found.holds
    assert why in found.line
    assert judged(drafter, *misses).holds


def test_all_reasons_against_are_told_at_once(drafter: Drafter) -> None:
    found = judged(drafter, "--enable-lora", "-dp=2", capability=AMPERE)
    assert len(found.reasons) == 3


def test_a_profile_chooses_k_itself(drafter: Drafter) -> None:
    found = judged(drafter, measured=True)
    assert found.reasons == ("the profile chooses K, which was measured",)


@pytest.mark.parametrize(
    ("release", "capability", "words", "holds"),
    [
        ("0.28.0", HOPPER, (), True),
        ("0.33.0", AMPERE, (), False),
        ("0.28.0", AMPERE, ("--attention-backend", "TRITON_ATTN"), True),
        ("0.33.0", AMPERE, ("--attention-backend", "FLEX_ATTENTION"), True),
        ("0.33.0", CONSUMER, (), False),
        # On compute capability 10: FlashAttention 4 first, then FLASHINFER, with bounded graphs from 0.31 on.
        ("0.28.0", BLACKWELL, (), False),
        ("0.30.0", BLACKWELL, (), False),
        ("0.31.0", BLACKWELL, (), True),
        ("0.32.0", BLACKWELL, ("--attention-backend=FLASH_ATTN",), False),
        ("0.33.0", BLACKWELL, ("--attention-backend=FLASH_ATTN",), True),
    ],
)
def test_the_backend_s_graphs(
    drafter: Drafter, release: str, capability: tuple[int, int], words: tuple[str, ...], *, holds: bool
) -> None:
    assert judged(drafter, *words, release=release, capability=capability).holds is holds


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"layer_types": ["linear_attention", "full_attention"]}, "linear attention"),
        ({"kv_lora_rank": 512}, "latent attention"),
        ({"model_type": "gpt_oss"}, "gpt_oss was not read"),
        ({"head_dim": 257}, "heads wider than 256"),
        ({"global_head_dim": 512}, "heads wider than 256"),
        ({"layer_types": ["chunked_attention", "full_attention"]}, "qwen3 was not read"),
        ({"model_type": "nemotron_h"}, "nemotron_h was not read"),
    ],
)
def test_verifiers_whose_backend_is_unknown(drafter: Drafter, changed: dict[str, Any], why: str) -> None:
    assert why in judged(drafter, verifier=model(**changed)).line


@pytest.mark.parametrize("changed", [{"layer_types": ["sliding_attention", "full_attention"]}, {"head_dim": 256}])
def test_verifiers_that_are_just_plain_enough(drafter: Drafter, changed: dict[str, Any]) -> None:
    assert judged(drafter, verifier=model(**changed)).holds


@pytest.mark.parametrize(
    ("flag", "refusing"),
    [
        ("--enable-batch-sharded-sampling", {"0.29.0", "0.30.0", "0.31.0", "0.32.0"}),
        ("--enable-return-routed-experts", {"0.31.0", "0.32.0", "0.33.0"}),
        ("--return-sampling-mask", {"0.32.0", "0.33.0"}),
    ],
)
def test_releases_that_refuse_a_flag(flag: str, refusing: set[str]) -> None:
    having = [engine_facts(name) for name in known_versions() if KEY in engine_facts(name).speculative_config_keys]
    found = {facts.version for facts in having if refused(facts, "dspark", read_launch((flag,)), confidence=True)}
    assert found == refusing


@pytest.mark.parametrize(("method", "releases"), [("dflash", {"0.28.0", "0.29.0"}), ("dspark", set())])
def test_releases_that_know_it_for_dspark_alone(method: Any, releases: set[str]) -> None:
    having = [engine_facts(name) for name in known_versions() if KEY in engine_facts(name).speculative_config_keys]
    found = {facts.version for facts in having if refused(facts, method, read_launch(()), confidence=True)}
    assert found == releases


def test_in_0_28_requests_for_log_probabilities_are_refused(drafter: Drafter) -> None:
    assert "log probabilities" in judged(drafter, release="0.28.0").line
    assert "log probabilities" not in judged(drafter, release="0.29.0").line


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ((), "FULL_AND_PIECEWISE"),
        (("-O", "1"), "PIECEWISE"),
        (("-O1", "-cc.cudagraph_mode=full"), "FULL"),
        (("--compilation-config", '{"cudagraph_mode": "NONE"}'), "NONE"),
        (("--compilation-config", '{"cudagraph_mode": "FULL"}', "--enforce-eager"), "NONE"),
    ],
)
def test_the_mode_of_graphs(words: tuple[str, ...], mode: str) -> None:
    assert graphs(read_launch(words)) == mode


@pytest.mark.parametrize(
    ("changed", "capability", "words", "why"),
    [
        ({}, AMPERE, (), "FLASH_ATTN on compute capability 8.0"),
        ({}, AMPERE, ("--attention-backend=TRITON_ATTN",), None),
        ({}, HOPPER, (), None),
        ({}, HOPPER, ("--attention-backend=FLASHINFER",), "FLASHINFER on compute capability 9.0"),
        ({"layer_types": ["linear_attention", "full_attention"]}, HOPPER, (), "linear attention"),
        # What was not read is not refused either.
        ({"model_type": "gpt_oss"}, AMPERE, (), None),
        ({}, AMPERE, ("--attention-backend=TURBOQUANT",), None),
    ],
)
def test_the_rule_stops_what_vllm_s_worker_would(
    changed: dict[str, Any], capability: tuple[int, int], words: tuple[str, ...], why: str | None
) -> None:
    found = stopped(engine_facts("0.33.0"), model(**changed), capability, read_launch(words))
    assert found is None if why is None else why in str(found)
