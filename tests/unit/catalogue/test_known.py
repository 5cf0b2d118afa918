"""The catalogue: well-formed, and recognising exactly what was published."""

from __future__ import annotations

from dataclasses import replace

import drafters
import pytest
from command_line import spectool
from drafters import Size
from mutations import PAIRS, VERIFIER
from readings import trained

from spectool.catalogue.known import for_verifier, known_drafters, like_verifier, recognise, republished
from spectool.drafter.model import Drafter

# z-lab/Qwen3-8B-DFlash-b16 as quoted: SpecForge configs/qwen3-8b-dflash.json.
ZLAB_8B = Size(
    layers=5, hidden=4096, mlp=12288, heads=32, kv_heads=8, head_dim=128, vocab=151936, draft_vocab=151936, depth=36,
    taps=(2, 10, 18, 26, 34), block=16, mask=151669, theta=1e6,
)  # fmt: skip


def drafter(size: Size) -> Drafter:
    return trained(drafters.zlab(size)).drafter


def test_every_entry_is_sound() -> None:
    for item in known_drafters():
        assert item.method in {"peagle", "dflash", "dspark"}
        assert item.certainty in {"config seen", "config partly seen", "named only"}
        assert item.drafter.count("/") == 1
        assert item.sources
        assert item.revision is None or len(item.revision) == 40
        for figure in item.acceptance:
            assert 1 <= figure.low <= figure.median <= figure.high <= figure.speculative_tokens + 1
            assert figure.source
        aux, depth = item.seen.get("aux_layers", ()), item.verifier_layers
        assert list(aux) == sorted(set(aux))
        assert depth is None or all(0 <= layer <= depth for layer in aux)


def test_a_published_drafter_is_recognised() -> None:
    found = recognise(drafter(ZLAB_8B))
    assert [item.drafter for item in found] == ["z-lab/Qwen3-8B-DFlash-b16"]
    assert {figure.workload for figure in found[0].acceptance} >= {"math", "code"}


@pytest.mark.parametrize(
    "change", [{"mask": 151670}, {"taps": (2, 10, 18, 26, 35)}, {"layers": 6}, {"mlp": 12289}, {"block": 9}]
)
def test_a_neighbour_is_not(change: dict[str, object]) -> None:
    assert recognise(drafter(replace(ZLAB_8B, **change))) == []


def test_a_repository_that_was_republished_is_named() -> None:
    size = replace(ZLAB_8B, hidden=5120, mlp=17408, vocab=248320, draft_vocab=248320, depth=64, mask=248070,
                   taps=(2, 17, 32, 47, 62))  # fmt: skip
    found = recognise(drafter(size))
    assert "z-lab/Qwen3.6-27B-DFlash" in [item.drafter for item in found]
    others = {item.drafter: item.seen["aux_layers"] for item in republished(found, drafter(size))}
    assert others["z-lab/Qwen3.6-27B-DFlash"] == (2, 11, 19, 28, 36, 45, 53, 62)


def test_drafters_of_a_verifier_by_name_and_by_size() -> None:
    named = {item.drafter for item in for_verifier("qwen/qwen3-8b")}
    assert {"RedHatAI/Qwen3-8B-speculator.peagle", "z-lab/Qwen3-8B-DFlash-b16"} <= named
    view = drafters.verifier(ZLAB_8B)
    assert "z-lab/Qwen3-8B-DFlash-b16" in {item.drafter for item in like_verifier(view)}
    assert like_verifier(drafters.verifier(replace(ZLAB_8B, depth=35))) == []


def test_inspect_lists_them() -> None:
    outcome = spectool("inspect", "Qwen/Qwen3-8B")
    assert outcome.code == 0
    assert "RedHatAI/Qwen3-8B-speculator.peagle" in outcome.out
    assert spectool("inspect", "nobody/nothing").out.startswith("nobody/nothing  0 known drafters")
    assert spectool("inspect", str(VERIFIER)).code == 0
    assert "known drafter" not in spectool("inspect", str(PAIRS / "dflash-zlab")).out
