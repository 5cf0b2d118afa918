"""The models of Speculators configs: what they take, what each side does with a missing key, what they refuse."""

from __future__ import annotations

import copy
import typing
from typing import Any

import pytest
from config_files import configs, plan
from mutations import NATIVE, put

from spectool.dialects.sources import SETTINGS
from spectool.engine.facts import engine_facts
from spectool.engine.reading.flat import flat_config
from spectool.formats.deployment import SettingKey
from spectool.formats.speculators import Faulty, ParsedConfig, is_speculators, parse_speculators
from spectool.formats.speculators.examples import EXAMPLES
from spectool.formats.speculators.layer import BlockLayerConfig, EagleLayerConfig
from spectool.formats.speculators.parse import MODELS

GOOD = {name: config for name, config in configs("good").items() if is_speculators(config)}


@pytest.mark.parametrize("name", GOOD)
def test_what_releases_wrote_is_read(name: str) -> None:
    parsed = parse_speculators(GOOD[name])
    assert isinstance(parsed, ParsedConfig)
    assert (parsed.unknown, parsed.decimals) == ((), ())


@pytest.mark.parametrize("method", NATIVE)
def test_what_spectool_writes_is_read(method: str) -> None:
    parsed = parse_speculators(plan(method).output.config)
    assert isinstance(parsed, ParsedConfig)
    assert parsed.unknown == ()


@pytest.mark.parametrize("method", MODELS)
def test_examples_are_read(method: str) -> None:
    assert isinstance(parse_speculators(EXAMPLES[method]), ParsedConfig)


def fields() -> list[tuple[str, str, Any]]:
    models = [*MODELS.values(), BlockLayerConfig, EagleLayerConfig]
    return [(model.__name__, name, field) for model in models for name, field in model.model_fields.items()]


@pytest.mark.parametrize(("model", "name", "field"), fields(), ids=[f"{model}.{name}" for model, name, _ in fields()])
def test_every_key_is_described(model: str, name: str, field: Any) -> None:
    assert len(field.description) > 4
    known = field.json_schema_extra
    assert known.keys() & {"x-speculators-versions", "x-vllm-versions"} or not field.is_required(), "nobody's key"


# What vLLM makes of a missing key, from its own translation (`flat_config` is proved against the engine).
DEFAULTS = [
    ("dspark", "sample_from_anchor", lambda flat: flat["sample_from_anchor"]),
    ("dspark", "enable_confidence_head", lambda flat: flat.get("enable_confidence_head", False)),
    ("dspark", "confidence_head_with_markov", lambda flat: flat.get("confidence_head_with_markov", False)),
    ("dflash", "sample_from_anchor", lambda flat: flat["dflash_config"]["sample_from_anchor"]),
    ("dflash", "sliding_window_non_causal", lambda flat: not flat["dflash_config"]["causal"]),
    ("peagle", "norm_before_residual", lambda flat: flat["norm_before_residual"]),
    ("peagle", "norm_before_fc", lambda flat: flat["norm_before_fc"]),
]


@pytest.mark.parametrize(("method", "name", "read"), DEFAULTS, ids=[f"{m}-{n}" for m, n, _ in DEFAULTS])
def test_vllm_default_is_what_vllm_does(method: str, name: str, read: Any) -> None:
    config = copy.deepcopy(EXAMPLES[method])
    del config[name]
    extra = MODELS[method].model_fields[name].json_schema_extra
    assert isinstance(extra, dict)
    assert extra["x-vllm-default"] == read(flat_config(config, engine_facts(None)))


# As in the wheels of Speculators 0.9.0: models/{peagle,dflash,dspark,eagle3}/config.py.
TRAINER = {
    "peagle": {"norm_before_residual": False, "norm_before_fc": False, "fc_norm": False, "norm_output": False,
               "embed_requires_grad": True, "draft_vocab_size": 32000},
    "dflash": {"sample_from_anchor": False, "sliding_window_non_causal": False, "block_size": 8,
               "draft_vocab_size": 32000},
    "dspark": {"sample_from_anchor": True, "sliding_window_non_causal": False, "block_size": 8,
               "draft_vocab_size": 32000, "markov_head_type": "vanilla", "enable_confidence_head": True,
               "confidence_head_with_markov": True},
}  # fmt: skip


@pytest.mark.parametrize("method", TRAINER)
def test_model_default_is_the_trainers(method: str) -> None:
    config = {key: value for key, value in EXAMPLES[method].items() if key not in TRAINER[method]}
    parsed = parse_speculators(config)
    assert isinstance(parsed, ParsedConfig)
    assert {key: getattr(parsed.model, key) for key in TRAINER[method]} == TRAINER[method]


def test_methods_without_a_model_are_named() -> None:
    parsed = parse_speculators({"speculators_model_type": "dflash9"})
    assert isinstance(parsed, Faulty)
    assert "not one of peagle, dflash, dspark, eagle3" in parsed.faults[0].message


def test_every_fault_is_found_at_once() -> None:
    config = copy.deepcopy(EXAMPLES["dspark"])
    for path, value in (
        ("mask_token_id", "1"),
        ("transformer_layer_config.layer_types.2", "linear_attention"),
        ("speculators_config.verifier", ...),
        ("aux_hidden_state_layer_ids", [1, 1]),
        ("sample_from_anchor", None),
    ):
        put(path, value)(config, {})
    parsed = parse_speculators(config)
    assert isinstance(parsed, Faulty)
    assert {(fault.key, fault.kind) for fault in parsed.faults} == {
        ("mask_token_id", "type"),
        ("transformer_layer_config.layer_types[2]", "choice"),
        ("speculators_config.verifier", "missing"),
        ("aux_hidden_state_layer_ids", "doubled"),
        ("sample_from_anchor", "type"),
    }


def test_unknown_keys_are_kept_and_named_at_any_depth() -> None:
    config = copy.deepcopy(EXAMPLES["dflash"])
    config["future"] = 1
    config["transformer_layer_config"]["rope_parameters"]["mrope_section"] = [1, 2]
    config["speculators_config"]["proposal_methods"][0]["beam"] = 2
    before = copy.deepcopy(config)
    parsed = parse_speculators(config)
    assert isinstance(parsed, ParsedConfig)
    assert set(parsed.unknown) == {
        ("future",),
        ("transformer_layer_config", "rope_parameters", "mrope_section"),
        ("speculators_config", "proposal_methods", 0, "beam"),
    }
    assert config == before


def test_decimals_pass_the_model_and_are_named() -> None:
    config = copy.deepcopy(EXAMPLES["dflash"])
    config["block_size"] = 8.0
    config["aux_hidden_state_layer_ids"][1] = 10.0
    parsed = parse_speculators(config)
    assert isinstance(parsed, ParsedConfig)
    assert set(parsed.decimals) == {("block_size",), ("aux_hidden_state_layer_ids", 1)}


def test_deployment_settings_are_what_set_takes() -> None:
    assert set(typing.get_args(SettingKey)) == set(SETTINGS)
