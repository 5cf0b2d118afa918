"""What a record settles about its folder, and when it settles nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mutations import NATIVE, PAIRS, VERIFIER, Change, folder, nothing, put

from spectool import api
from spectool.formats.provenance import Provenance
from spectool.record.seal import sealed, spelled
from spectool.rules.registry import Finding

HALF = put("rope_parameters.partial_rotary_factor", 0.5)
# What Speculators files cannot say, by method: the source, the answer given for it, the rule that speaks without it.
FACTS: dict[str, tuple[str, Change, dict[str, Any], str, str]] = {
    "causal": ("dflash", put("is_causal", True), {}, "ATT001", "--set causal=true"),
    "logit scale": ("dflash", put("dflash_config.output_multiplier", 0.5), {}, "EMB001", "--set logit_scale=0.5"),
    "dspark rope": ("dspark", HALF, {"rope.partial": 0.5}, "ROP002", "--set rope.partial=0.5"),
    "dspark causal": ("dspark", nothing, {"causal": True}, "ATT001", "--set causal=true"),
    "peagle rope": ("peagle", HALF, {"rope.partial": 0.5, "speculative_tokens": 5}, "ROP002", "--set rope.partial=0.5"),
}


def convert(fact: str, root: Path) -> Path:
    method, change, answers, _, _ = FACTS[fact]
    source = folder(PAIRS / NATIVE[method], root / "source", change)
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings={"verifier": "a/b", **answers})
    api.convert(plan, root / "out")
    return root / "out"


def findings(drafter: Path, *, weights: bool = False) -> dict[str, Finding]:
    report = api.validate(str(drafter), verifier=str(VERIFIER), weights=weights)
    return {item.code: item for item in report.findings}


@pytest.mark.parametrize("fact", FACTS)
def test_the_record_settles_its_own_folder_and_without_it_both_readings_are_named(fact: str, tmp_path: Path) -> None:
    out = convert(fact, tmp_path)
    assert findings(out) == {}
    assert findings(out, weights=True) == {}
    (out / "provenance.json").unlink()
    code, answer = FACTS[fact][3:]
    (finding,) = findings(out).values()
    assert (finding.code, finding.severity) == (code, "error")
    assert finding.trained is not None
    assert finding.run is not None
    assert finding.trained != finding.run
    assert answer in finding.fix


def spaced(out: Path) -> None:
    path = out / "config.json"
    path.write_bytes(path.read_bytes() + b"\n")


def longer(out: Path) -> None:
    path = out / "model.safetensors"
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + size] + b" " * 8
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + size :])


def renamed(out: Path) -> None:
    path = out / "model.safetensors"
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'"norm.weight"', b'"nerm.weight"', 1))


def more_settled(out: Path) -> None:
    path = out / "provenance.json"
    document = json.loads(path.read_text())
    document["settled"]["value_scale"] = 0.5
    path.write_text(json.dumps(document))


def of_other_weights(out: Path) -> None:
    """Seal a record anew that names another file's digest: config and record fit, weights do not."""
    path = out / "provenance.json"
    document = json.loads(path.read_text())
    document["files"] = [item for item in document["files"] if item["name"] != "model.safetensors"]
    document["files"].append({"name": "other.safetensors", "nbytes": 1, "sha256": "0" * 64})
    path.write_bytes(spelled(sealed(Provenance.model_validate(document))))


def no_record(out: Path) -> None:
    (out / "provenance.json").write_text('{"provenance_version": 2}')


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (spaced, "config.json is not the one it records"),
        (longer, "model.safetensors has"),
        (renamed, "the weights have other tensors than it records"),
        (more_settled, "it was edited: its digest is not its own"),
        (of_other_weights, "other.safetensors is not among the weights"),
        (no_record, "provenance.json cannot be read (no record of a conversion"),
    ],
)
def test_what_does_not_belong_together_settles_nothing(harm: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    out = convert("causal", tmp_path)
    harm(out)
    told = findings(out)
    assert {"ATT001", "CFG007"} <= told.keys()
    assert told["CFG007"].severity == "note"
    assert said in told["CFG007"].message


def test_changed_bytes_are_seen_where_weights_are_read(tmp_path: Path) -> None:
    out = convert("causal", tmp_path)
    path = out / "model.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert findings(out) == {}
    assert {"ATT001", "CFG007"} <= findings(out, weights=True).keys()


def test_a_record_that_settles_nothing_is_not_spoken_of(tmp_path: Path) -> None:
    plan = api.plan_conversion(str(PAIRS / NATIVE["dflash"]), verifier=str(VERIFIER), settings={"verifier": "a/b"})
    api.convert(plan, tmp_path / "out")
    spaced(tmp_path / "out")
    assert findings(tmp_path / "out") == {}
