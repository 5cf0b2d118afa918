"""The golden DFlash in the words of the official converter, upgraded, drafts as the native folder again."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations import PAIRS, VERIFIER, both, folder, put
from oracle import example_prompts, judge

from spectool import api
from spectool.upgrade.upgrade import plan_upgrade, write_upgrade

MAX_TOKENS = 32


@pytest.mark.slow
def test_the_official_converters_output_is_repaired(engine_python: Path, tmp_path: Path) -> None:
    converted, native = tmp_path / "converted", PAIRS / "dflash-zlab"
    settings = {"verifier": "spectool/tiny-verifier"}
    api.convert(api.plan_conversion(str(native), verifier=str(VERIFIER), settings=settings), converted)
    # `speculators convert` 0.9.0 always writes the class default, and knows no is_causal.
    official = both(put("sliding_window_non_causal", False), put("transformer_layer_config.is_causal", ...))
    upgraded = folder(converted, tmp_path / "upgraded", official)
    folder(converted, tmp_path / "official", official)
    write_upgrade(plan_upgrade(upgraded))
    cases = [
        {
            "id": name,
            "verifier": str(VERIFIER),
            "speculative_config": {"method": "dflash", "num_speculative_tokens": 7, "model": str(path)},
            "runner": "v1",
            "prompts": example_prompts(),
            "max_tokens": MAX_TOKENS,
            "engine_args": {"max_num_batched_tokens": 256},
        }
        for name, path in (("native", native), ("official", tmp_path / "official"), ("upgraded", upgraded))
    ]
    verdicts = judge(engine_python, cases, tmp_path)
    figures = {
        name: [verdict["extra"][key] for key in ("drafts", "accepted_per_pos", "causal")]
        for name, verdict in verdicts.items()
    }
    assert figures["upgraded"] == figures["native"]
    assert figures["official"] != figures["native"]
    assert figures["official"][-1] == [True, True]
