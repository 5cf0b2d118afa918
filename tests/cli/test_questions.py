"""What no file says is asked, once per kind: the conversion ends with 2, the plausible values and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import spectool
from dialect_fixtures import ALL
from random_weights import write_drafter, write_verifier

# kind: fixture, changed keys, the question's key, what is offered
KINDS = {
    "K": ("peagle-vllm", {}, "speculative_tokens", "5, 7, 8, 10"),
    "mask token": ("peagle-specforge", {}, "mask_token_id", "151669"),
    "block size": ("dflash-torchspec", {}, "block_size", "16, 8"),
    "slot layout": ("dspark-labelled", {}, "slot_layout", "anchor-first, bonus-anchor"),
    "slot layout of ModelOpt": ("dspark-modelopt", {"shift_label": None}, "slot_layout", "anchor-first, bonus-anchor"),
    "width of rope": ("dspark-labelled", {"partial_rotary_factor": 0.5}, "rope.partial", "1, 0.5"),
    "base of rope": ("dflash-zlab-early", {"rope_parameters": None}, "rope.theta", "10000, 1000000"),
    "amplitude of yarn": ("dflash-zlab-kimi", {}, "rope.attention_factor", "1, 1.34657359"),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_it_is_asked(kind: str, tmp_path: Path) -> None:
    name, changes, key, offered = KINDS[kind]
    fixture = ALL[name]
    source = write_drafter(tmp_path / "source", fixture, 1)
    config = source / "config.json"
    document = json.loads(config.read_text())
    for change, value in changes.items():
        (document["dflash_config"] if change == "shift_label" else document)[change] = value
    config.write_text(json.dumps(document))
    verifier = write_verifier(tmp_path / "verifier", fixture, 2)
    out = tmp_path / "out"
    outcome = spectool("convert", str(source), str(out), "--verifier", str(verifier))
    assert outcome.code == 2
    line = next(line for line in outcome.err.splitlines() if line.strip().startswith(f"{key}: "))
    assert f"Plausible: {offered}" in outcome.err.replace("\n", " ")
    assert len(line) > len(key) + 20  # and why
    assert f"--set {key}=" in outcome.err
    assert not out.exists()
