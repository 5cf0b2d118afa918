"""Every convertible dialect, also those vLLM cannot load itself: what is trained and what is served are one function.

Random weights and random hidden states; `as_trained.py` reads the source by its producer's conventions, `as_served.py`
the output by vLLM's, and logits, confidences and drafts of one forward pass have to be equal.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dialect_fixtures import ALL
from mutations import Change, Config, Tensors, both, folder, put, without
from random_weights import write_drafter, write_verifier

from spectool import api

HERE = Path(__file__).parent
PRODUCER = {
    "dflash-zlab-early": "zlab",
    "dflash-zlab-nested": "zlab",
    "dflash-zlab-mixed": "zlab",
    "dflash-zlab-gptoss": "zlab",
    "dflash-zlab-kimi": "zlab",
    "dflash-zlab-gemma": "zlab",
    "dflash-zlab-last-layer": "zlab",
    "dflash-zlab-unsorted": "zlab",
    "dflash-angelslim": "zlab",
    "dflash-specforge": "zlab",
    "dflash-specforge-lfm2": "lfm2-dflash",
    "dflash-specforge-sliding": "zlab",
    "dflash-modelopt-plain": "modelopt-dflash",
    "dflash-jetspec": "nemo-dflash",
    "dflash-speculators-050": "speculators-dflash",
    "dflash-speculators-060": "speculators-dflash",
    "dflash-speculators-070": "speculators-dflash",
    "dflash-speculators-081": "speculators-dflash",
    "dflash-speculators-090": "speculators-dflash",
    "dspark-speculators-early": "speculators-dspark",
    "dspark-speculators-070": "speculators-dspark",
    "dspark-speculators-081": "speculators-dspark",
    "dspark-speculators-090": "speculators-dspark",
    "peagle-speculators-prototype": "speculators-peagle",
    "peagle-speculators-060": "speculators-peagle",
    "peagle-speculators-070": "speculators-peagle",
    "peagle-speculators-081": "speculators-peagle",
    "peagle-speculators-090": "speculators-peagle",
    "dflash-nemo": "nemo-dflash",
    "dflash-modelopt": "modelopt-dflash",
    "dflash-nemotron": "modelopt-dflash",
    "dflash-mimo": "mimo",
    "dflash-mimo-mask": "mimo",
    "dflash-torchspec": "torchspec",
    "dflash-verl": "verl-dflash",
    "dflash-muse": "muse",
    "dspark-deepspec": "deepspec",
    "dspark-deepspec-embedding-tap": "deepspec",
    "dspark-deepspec-community": "deepspec",
    "dspark-deepspec-dflash": "deepspec",
    "dspark-deepspec-qwen35": "deepspec",
    "dspark-specforge": "specforge-dspark",
    "dspark-specforge-promoted": "specforge-dspark",
    "dspark-specforge-early": "specforge-dspark",
    "dspark-modelopt": "modelopt-dspark",
    "dspark-verl": "verl-dspark",
    "dspark-nemotron": "nemotron-dspark",
    "dspark-lfm2": "lfm2",
    "dspark-dual": "dual",
    "dspark-labelled": "labelled",
    "peagle-vllm": "amazon",
    "peagle-vllm-qwen3": "amazon",
    "peagle-vllm-four": "amazon",
    "peagle-specforge": "specforge-peagle",
    "peagle-nemo": "nemo-peagle",
    "peagle-verl": "verl",
    "peagle-vllm-reduced": "amazon",
    "peagle-specforge-reduced": "specforge-peagle",
    "peagle-nemo-reduced": "nemo-peagle",
    "peagle-nemo-meta": "nemo-peagle",
    "peagle-verl-reduced": "verl",
}
EXACT = 1e-10  # double precision: only the order of a sum may differ
SEEN = 1e-6


def rotated_halves(config: Config, tensors: Tensors) -> None:
    """The first half of each q and k head swapped with the second: a rope of the other layout."""
    for name, (dtype, shape, data) in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            row, head = len(data) // shape[0], 8
            rows = [data[start : start + row] for start in range(0, len(data), row)]
            turned = [
                rows[first + (place + head // 2) % head] for first in range(0, len(rows), head) for place in range(head)
            ]
            tensors[name] = (dtype, shape, b"".join(turned))


def blocks_reversed(config: Config, tensors: Tensors) -> None:
    """fc's column blocks in another order than the aux layers."""
    dtype, shape, data = tensors["fc.weight"]
    row, parts = len(data) // shape[0], 3
    size = row // parts
    moved = b"".join(
        data[start + index * size : start + (index + 1) * size]
        for start in range(0, len(data), row)
        for index in reversed(range(parts))
    )
    tensors["fc.weight"] = (dtype, shape, moved)


def zeroed(*names: str) -> Change:
    """Tensors of zeros, as where a head was left out."""

    def change(config: Config, tensors: Tensors) -> None:
        for name in names:
            dtype, shape, data = tensors[name]
            tensors[name] = (dtype, shape, bytes(len(data)))

    return change


def shifted(by: int) -> Change:
    """Aux layers in the other convention."""

    def change(config: Config, tensors: Tensors) -> None:
        key = next(name for name in config if name.endswith("hidden_state_layer_ids"))
        config[key] = [index + by for index in config[key]]

    return change


LAYER = "transformer_layer_config"
TOKENS = "speculators_config.proposal_methods.0.speculative_tokens"
FAULTS: dict[str, tuple[str, Change]] = {
    "rope layout": ("dflash-zlab-early", rotated_halves),
    "rope layout not carried": ("dspark-lfm2", put(f"{LAYER}.is_neox_style", ...)),
    "rope base": ("dflash-zlab-early", put(f"{LAYER}.rope_parameters.rope_theta", 1000000.0)),
    "rope width of the verifier": (
        "dspark-deepspec-qwen35",
        put(f"{LAYER}.rope_parameters.partial_rotary_factor", 0.25),
    ),
    "rope width lost": ("dflash-mimo", put(f"{LAYER}.rope_parameters.partial_rotary_factor", ...)),
    "yarn lost": ("dspark-specforge", put(f"{LAYER}.rope_parameters.rope_type", "default")),
    "yarn's amplitude": ("dflash-zlab-kimi", put(f"{LAYER}.rope_parameters.attention_factor", ...)),
    "yarn where the trainer had none": (
        "peagle-specforge",
        put(f"{LAYER}.rope_parameters", ALL["peagle-specforge"].view.config["rope_parameters"]),
    ),
    "blocks of fc": ("dflash-zlab-unsorted", blocks_reversed),
    "ids not shifted": ("dflash-zlab-early", shifted(-1)),
    "ids shifted twice": ("peagle-vllm", shifted(1)),
    "scaled embedding not shipped": ("dflash-zlab-gemma", without("embed_tokens.weight")),
    "own embedding dropped": ("peagle-vllm", without("embed_tokens.weight")),
    "own head dropped": ("dspark-deepspec", without("lm_head.weight")),
    "value scale": ("dflash-mimo", put(f"{LAYER}.dflash_config.attention_value_scale", ...)),
    "Markov head": ("dspark-modelopt", zeroed("markov_head.markov_w1.weight")),
    "confidence head": ("dspark-modelopt", put("enable_confidence_head", ...)),
    "confidence bias": ("dspark-modelopt", zeroed("confidence_head.proj.bias")),
    "mask token": ("dflash-zlab-early", put("mask_token_id", 126)),
    "mask row": ("dflash-mimo-mask", without("embed_tokens.weight")),
    "mask_hidden": ("peagle-vllm", zeroed("mask_hidden")),
    "slot layout": ("dspark-deepspec", put("sample_from_anchor", ...)),
    "block": ("dflash-zlab-early", put(TOKENS, 8)),
    "causal": ("dflash-zlab-early", put(f"{LAYER}.is_causal", True)),
    "window": ("dflash-muse", put(f"{LAYER}.sliding_window", 65)),
    "bidirectional window": ("dflash-muse", put(f"{LAYER}.is_causal", True)),
    "windows of the verifier": (
        "peagle-nemo",
        both(put(f"{LAYER}.layer_types", ["sliding_attention", "full_attention"]), put(f"{LAYER}.sliding_window", 64)),
    ),
    "mixed layers": ("dflash-zlab-mixed", put(f"{LAYER}.is_causal", False)),
    "residual": ("peagle-vllm", put("norm_before_residual", True)),
    "biases": ("dflash-zlab-gptoss", put(f"{LAYER}.attention_bias", False)),
    "epsilon": ("dflash-zlab-early", put(f"{LAYER}.rms_norm_eps", 0.1)),
}


@pytest.fixture(scope="module")
def results(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    root = tmp_path_factory.mktemp("reference")
    jobs = []
    for seed, name in enumerate(sorted(ALL)):
        fixture = ALL[name]
        source = write_drafter(root / name / "source", fixture, seed)
        verifier = write_verifier(root / name / "verifier", fixture, seed + 1000)
        plan = api.plan_conversion(
            str(source), verifier=str(verifier), settings={"verifier": "org/verifier", **fixture.settings}
        )
        api.convert(plan, root / name / "converted")
        job = {"producer": PRODUCER[name], "source": str(source), "verifier": str(verifier)}
        jobs.append({"id": name, **job, "answers": fixture.settings, "converted": str(root / name / "converted")})
    jobs += [planted(title, jobs, root) for title in FAULTS]
    listing = root / "jobs.json"
    listing.write_text(json.dumps(jobs), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    done = subprocess.run(
        [torch_python, HERE / "compare.py", listing], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def planted(title: str, jobs: list[dict[str, Any]], root: Path) -> dict[str, Any]:
    name, change = FAULTS[title]
    job = next(job for job in jobs if job["id"] == name)
    wrong = folder(Path(job["converted"]), root / f"wrong {title}", change)
    return {**job, "id": title, "converted": str(wrong)}


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_served_drafter_is_the_trained_one(name: str, results: dict[str, dict[str, Any]]) -> None:
    found = results[name]
    assert "error" not in found, found
    assert found["tokens"][0] == found["tokens"][1] > 0
    assert found["logits"] < EXACT, found
    assert found["confidence"] < EXACT, found
    assert found["same_drafts"]
    assert found["spread"] > 0.01  # logits that say something
    heads = any("confidence" in tensor for tensor in ALL[name].view.tensors)
    assert bool(found["confidences"][0]) == heads


@pytest.mark.parametrize("title", sorted(FAULTS))
def test_a_wrong_conversion_is_seen(title: str, results: dict[str, dict[str, Any]]) -> None:
    found = results[title]
    assert "error" not in found, found
    assert max(found["logits"], found["confidence"]) > SEEN, found


def test_every_fixture_names_its_producer() -> None:
    assert sorted(PRODUCER) == sorted(ALL)
