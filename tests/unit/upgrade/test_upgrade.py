# ruff: noqa: E501 - tables: one case, one line
"""What early trainers and converters wrote, repaired; and what is not certain, left alone and said."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import drafters
import pytest
from checkpoints import write_checkpoint_folder
from command_line import spectool
from drafters import Size
from mutations import NATIVE, PAIRS, VERIFIER, Change, both, folder, nothing, put
from readings import written

from spectool import api
from spectool.upgrade.upgrade import plan_upgrade, write_upgrade

LAYER = "transformer_layer_config"
TOKENS = "speculators_config.proposal_methods.0.speculative_tokens"
SWA = both(put(f"{LAYER}.layer_types", ["sliding_attention"] * 2), put(f"{LAYER}.sliding_window", 64))
MIXED = both(put(f"{LAYER}.layer_types", ["sliding_attention", "full_attention"]), put(f"{LAYER}.sliding_window", 64))
NO_FLAG = put(f"{LAYER}.is_causal", ...)
OFFICIAL = both(put("sliding_window_non_causal", False), NO_FLAG)  # what `speculators convert` 0.9.0 writes


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("converted")

    @cache
    def make(method: str) -> Path:
        settings = {"verifier": "spectool/tiny-verifier", **({"speculative_tokens": 5} if method == "peagle" else {})}
        api.convert(
            api.plan_conversion(str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), settings=settings), root / method
        )
        return root / method

    return make


def upgraded(path: Path, **settings: Any) -> tuple[list[str], dict[str, Any]]:
    """The codes of the repairs, and the config after them."""
    upgrade = plan_upgrade(path, settings={key.replace("__", "."): value for key, value in settings.items()})
    return [repair.code for repair in upgrade.repairs], json.loads(upgrade.after)


CASES = [
    ("dflash", "official converter", OFFICIAL, ["ATT001"], {"sliding_window_non_causal": True}),
    ("dflash", "null flag", both(put("sliding_window_non_causal", None), NO_FLAG), ["ATT001"], {"sliding_window_non_causal": True}),
    ("dflash", "K counts the anchor", put(TOKENS, 8), ["SLT002"], {}),
    ("dspark", "anchor flag of seven", put("sample_from_anchor", ...), ["SLT001"], {"sample_from_anchor": True}),
    ("dspark", "anchor flag of six", both(put("sample_from_anchor", ...), put(TOKENS, 6)), ["SLT001"], {"sample_from_anchor": False}),
    ("dspark", "confidence flags", put("enable_confidence_head", ...), ["HED003"], {"enable_confidence_head": True}),
    ("dflash", "model_type", put("model_type", "qwen3"), ["CFG002"], {}),
]  # fmt: skip
LEFT_ALONE = [
    ("dflash", "good", nothing),
    ("dflash", "flag absent", both(put("sliding_window_non_causal", ...), NO_FLAG)),
    ("dflash", "sliding layers", both(SWA, OFFICIAL)),
    ("dflash", "mixed layers", both(MIXED, OFFICIAL)),
    ("dflash", "causal on purpose", put(f"{LAYER}.is_causal", True)),
    ("dflash", "K within the block", put(TOKENS, 6)),
    ("dflash", "K beyond the block", put(TOKENS, 9)),
    ("dspark", "flag against K", put("sample_from_anchor", False)),
    ("dspark", "good", nothing),
    ("peagle", "good", nothing),
    ("dflash", "partial rotary", put(f"{LAYER}.rope_parameters.partial_rotary_factor", 0.25)),
]  # fmt: skip


@pytest.mark.parametrize(("method", "name", "change", "codes", "values"), CASES, ids=[f"{m}-{n}" for m, n, *_ in CASES])
def test_repaired(
    method: str, name: str, change: Change, codes: list[str], values: dict[str, Any], tmp_path: Path,
    converted: Callable[[str], Path],
) -> None:  # fmt: skip
    path = folder(converted(method), tmp_path / "d", change)
    found, config = upgraded(path)
    assert found == codes
    assert {key: config[key] for key in values} == values
    write_upgrade(plan_upgrade(path))
    report = api.validate(str(path), verifier=str(VERIFIER))
    assert [finding.code for finding in report.findings] == []
    assert upgraded(path)[0] == []  # once is enough
    good = api.inspect(str(converted(method)))
    assert api.inspect(str(path)).reading.drafter.attention == good.reading.drafter.attention


@pytest.mark.parametrize(("method", "name", "change"), LEFT_ALONE, ids=[f"{m}-{n}" for m, n, _ in LEFT_ALONE])
def test_left_alone(method: str, name: str, change: Change, tmp_path: Path, converted: Callable[[str], Path]) -> None:
    path = folder(converted(method), tmp_path / "d", change)
    before = (path / "config.json").read_bytes()
    assert upgraded(path)[0] == []
    write_upgrade(plan_upgrade(path))
    assert sorted(item.name for item in path.iterdir()) == ["config.json", "model.safetensors"]
    assert (path / "config.json").read_bytes() == before


def peagle(size: Size, drop: str) -> dict[str, Any]:
    """A P-EAGLE config as Speculators writes it, without the key that vLLM needs."""
    config = dict(written(drafters.peagle(size), drafters.verifier(size), speculative_tokens=5).config)
    config[LAYER] = {key: value for key, value in config[LAYER].items() if key != drop}
    return config


@pytest.mark.parametrize(
    ("size", "drop", "code", "value"),
    [
        (Size(taps=(1, 2, 4, 6)), "num_aux_hidden_states", "AUX004", 4),
        (Size(fc_norm=True), "fc_norm", "NRM001", True),
    ],
)
def test_p_eagle_from_the_config_alone(size: Size, drop: str, code: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(peagle(size, drop)))
    codes, config = upgraded(path)
    assert codes == [code]
    assert config[LAYER][drop] == value
    near = Size(taps=(1, 2, 4)) if code == "AUX004" else Size()
    path.write_text(json.dumps(peagle(near, drop)))
    assert upgraded(path)[0] == []


def test_a_local_verifier_path_needs_an_answer(tmp_path: Path, converted: Callable[[str], Path]) -> None:
    path = folder(
        converted("dflash"), tmp_path / "d", put("speculators_config.verifier.name_or_path", "/model/from_s3")
    )
    assert upgraded(path)[0] == []
    codes, config = upgraded(path, verifier="Qwen/Qwen3-8B")
    assert codes == ["VER005"]
    assert config["speculators_config"]["verifier"]["name_or_path"] == "Qwen/Qwen3-8B"


def test_partial_rotary_needs_an_answer(tmp_path: Path, converted: Callable[[str], Path]) -> None:
    path = folder(converted("dflash"), tmp_path / "d", put(f"{LAYER}.rope_parameters.partial_rotary_factor", 0.25))
    codes, config = upgraded(path, rope__partial=1.0)
    assert codes == ["ROP002"]
    assert "partial_rotary_factor" not in config[LAYER]["rope_parameters"]
    assert upgraded(path, rope__partial=0.25)[0] == []


def test_formatting_and_weights_stay(tmp_path: Path, converted: Callable[[str], Path]) -> None:
    path = folder(converted("dflash"), tmp_path / "d", OFFICIAL)
    config = json.loads((path / "config.json").read_text())
    odd = json.dumps(dict(reversed(config.items())), indent="\t").replace("\n", "\r\n")
    (path / "config.json").write_bytes(odd.encode())
    weights = (path / "model.safetensors").read_bytes()
    outcome = spectool("schema", "upgrade", str(path), "--write", "--verifier", str(VERIFIER))
    assert outcome.code == 0
    after = (path / "config.json").read_bytes().decode()
    changed = odd.replace('"sliding_window_non_causal": false', '"sliding_window_non_causal": true')
    assert after.replace('\t\t"is_causal": false,\r\n', "") == changed
    assert (path / "model.safetensors").read_bytes() == weights
    record = json.loads((path / "spectool-upgrades.json").read_text())
    assert [(item["code"], item["keys"]) for item in record[0]["repairs"]] == [
        ("ATT001", ["sliding_window_non_causal", f"{LAYER}.is_causal"])
    ]


def test_the_command_shows_and_only_then_writes(tmp_path: Path, converted: Callable[[str], Path]) -> None:
    path = folder(converted("dflash"), tmp_path / "d", OFFICIAL)
    before = (path / "config.json").read_bytes()
    outcome = spectool("schema", "upgrade", str(path))
    assert outcome.code == 1
    assert '-  "sliding_window_non_causal": false' in outcome.out
    assert '+  "sliding_window_non_causal": true' in outcome.out
    assert (path / "config.json").read_bytes() == before
    assert spectool("schema", "upgrade", str(path), "--write").code == 0
    assert spectool("schema", "upgrade", str(path)).code == 0
    assert spectool("schema", "upgrade", str(PAIRS / "dflash-zlab")).code == 2
    assert spectool("schema", "upgrade", str(tmp_path / "nope")).code == 2


def test_a_foreign_record_is_not_overwritten(tmp_path: Path, converted: Callable[[str], Path]) -> None:
    path = folder(converted("dflash"), tmp_path / "d", OFFICIAL)
    (path / "spectool-upgrades.json").write_text('{"mine": 1}')
    before = (path / "config.json").read_bytes()
    assert spectool("schema", "upgrade", str(path), "--write").code == 2
    assert (path / "config.json").read_bytes() == before


def test_the_diff_is_one_that_patch_takes(tmp_path: Path, converted: Callable[[str], Path]) -> None:
    path = folder(converted("dflash"), tmp_path / "d", put(TOKENS, 8))
    file = path / "config.json"
    file.write_text(file.read_text().rstrip("\n"))
    diff = plan_upgrade(file).diff()
    assert all(line[0] in " +-@\\" for line in diff.splitlines())
    assert diff.endswith("\n")
    outcome = spectool("schema", "upgrade", str(path))
    assert outcome.out == plan_upgrade(path).diff()


def test_a_wider_verifier_is_written(tmp_path: Path) -> None:
    """As Llama 3.3 70B has one: a P-EAGLE drafter of 6144 reads hidden states of 8192, and the key was lost."""
    size = Size(hidden=32, taps=(1, 2, 4))
    view = drafters.peagle(size)
    wide = 3 * 48
    tensors = {name: (item.dtype, item.shape) for name, item in view.tensors.items()}
    tensors |= {"fc.weight": ("BF16", (32, wide)), "mask_hidden": ("BF16", (1, wide))}
    source = write_checkpoint_folder(
        tmp_path / "source", {**view.config, "target_hidden_size": 48},
        {name: (dtype, shape, bytes(2 * math.prod(shape))) for name, (dtype, shape) in tensors.items()},
    )  # fmt: skip
    verifier = tmp_path / "verifier"
    verifier.mkdir()
    shown = drafters.verifier(size, hidden_size=48).model_dump(exclude_none=True)
    (verifier / "config.json").write_text(json.dumps(shown))
    settings = {"speculative_tokens": 5, "verifier": "spectool/wide"}
    plan = api.plan_conversion(str(source), verifier=str(verifier), settings=settings)
    api.convert(plan, tmp_path / "out")
    broken = folder(tmp_path / "out", tmp_path / "broken", put("target_hidden_size", ...))
    upgrade = plan_upgrade(broken, verifier=str(verifier))
    assert [repair.code for repair in upgrade.repairs] == ["AUX004"]
    after = json.loads(upgrade.after)
    assert (after["target_hidden_size"], after[LAYER].get("num_aux_hidden_states")) == (48, None)
