"""The catalogue: well-formed, and recognising exactly what was published."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import drafters
import pytest
from command_line import spectool
from drafters import Size
from mutations import PAIRS, VERIFIER
from readings import trained

from spectool.catalogue.known import for_verifier, known_drafters, like_verifier, published, recognise
from spectool.dialects.view import View
from spectool.drafter.model import Drafter

# z-lab/Qwen3-8B-DFlash-b16 as quoted: SpecForge configs/qwen3-8b-dflash.json.
ZLAB_8B = Size(
    layers=5, hidden=4096, mlp=12288, heads=32, kv_heads=8, head_dim=128, vocab=151936, draft_vocab=151936, depth=36,
    taps=(2, 10, 18, 26, 34), block=16, mask=151669, theta=1e6,
)  # fmt: skip
SLIDING = {
    "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
    "sliding_window": 2048,
    "use_sliding_window": True,
}
# The first revision of z-lab/Qwen3.6-27B-DFlash: SpecForge configs/qwen3.6-27b-dflash.json.
QWEN36_27B = replace(
    ZLAB_8B, hidden=5120, mlp=17408, vocab=248320, draft_vocab=248320, depth=64, mask=248070,
    taps=(2, 17, 32, 47, 62), extra=SLIDING,
)  # fmt: skip


def drafter(size: Size) -> Drafter:
    return trained(drafters.zlab(size)).drafter


def test_every_entry_is_sound() -> None:
    for item in known_drafters():
        assert item.method in {"peagle", "dflash", "dspark"}
        assert item.certainty in {"config seen", "config partly seen", "named only"}
        assert item.drafter.count("/") == 1
        assert item.sources
        assert item.revision is None or re.fullmatch(r"[0-9a-f]{7,40}", item.revision)
        assert 0 <= item.seen.get("sliding_layers", 0) <= item.seen.get("num_layers", 1000)
        assert "sliding_window" not in item.seen or item.seen["sliding_layers"]
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
    about = published(drafter(QWEN36_27B))
    # Qwen3.5-27B's first drafter differs in attention alone.
    assert [item.drafter for item in about.looks_like] == ["z-lab/Qwen3.6-27B-DFlash"]
    assert about.looks_like[0].acceptance == ()
    assert [item.seen["aux_layers"] for item in about.others] == [(2, 11, 19, 28, 36, 45, 53, 62)]


def test_attention_tells_two_published_drafters_apart() -> None:
    full = replace(QWEN36_27B, extra={})
    assert [item.drafter for item in recognise(drafter(full))] == ["z-lab/Qwen3.5-27B-DFlash"]
    wider = replace(QWEN36_27B, extra={**SLIDING, "sliding_window": 4096})
    assert recognise(drafter(wider)) == []


def test_of_drafters_that_look_alike_the_verifier_or_the_repository_tells() -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    again = replace(QWEN36_27B, layers=6, taps=(2, 11, 19, 28, 36, 45, 53, 62), mask=248077,
                    extra={"layer_types": kinds, "sliding_window": 4096, "use_sliding_window": True})  # fmt: skip
    both = {"z-lab/Qwen3.5-27B-DFlash", "z-lab/Qwen3.6-27B-DFlash"}
    assert {item.drafter for item in published(drafter(again)).looks_like} == both
    for more in (
        {"verifiers": ["/models/qwen3.6-27b"]},
        {"verifiers": ["Qwen/Qwen3.6-27B"]},
        {"repository": "Z-lab/qwen3.6-27B-DFlash", "commit": "0" * 40, "verifiers": ["Qwen/Qwen3.5-27B"]},
    ):
        about = published(drafter(again), **more)  # type: ignore[arg-type]  # a table of keyword arguments
        assert [item.drafter for item in about.looks_like] == ["z-lab/Qwen3.6-27B-DFlash"]
        assert {item.drafter for item in about.others} == {"z-lab/Qwen3.6-27B-DFlash"}
    # A verifier nothing is known for decides nothing.
    assert {item.drafter for item in published(drafter(again), verifiers=["my/own"]).looks_like} == both


def test_a_commit_is_one_that_was_seen_or_another() -> None:
    repository, seen = "z-lab/Qwen3-8B-DFlash-b16", "9b41424b7109f9c5413454f481b09a82b85333f4"
    state = {
        commit: published(drafter(ZLAB_8B), repository=repository, commit=commit).commit for commit in (seen, "0" * 40)
    }
    assert state == {seen: "known", "0" * 40: "another"}
    assert published(drafter(ZLAB_8B)).commit is None
    # Of most repositories no commit was seen.
    assert published(drafter(ZLAB_8B), repository="z-lab/Qwen3-4B-DFlash-b16", commit=seen).commit is None


def test_a_repository_of_that_name_with_other_layers_is_told() -> None:
    about = published(drafter(ZLAB_8B), repository="z-lab/Qwen3.5-9B-DFlash", commit="0" * 40)
    assert {item.seen["aux_layers"] for item in about.others} == {(2, 9, 16, 23, 30), (2, 6, 10, 14, 18, 22, 26, 30)}


def test_figures_belong_to_the_revision_they_were_published_with() -> None:
    by_layers = {
        item.seen["num_layers"]: {figure.workload for figure in item.acceptance}
        for item in known_drafters()
        if item.drafter == "z-lab/Qwen3.5-9B-DFlash"
    }
    assert by_layers == {5: {"chat", "code", "math"}, 6: set()}


def test_drafters_of_a_verifier_by_name_and_by_size() -> None:
    named = {item.drafter for item in for_verifier("qwen/qwen3-8b")}
    assert {"RedHatAI/Qwen3-8B-speculator.peagle", "z-lab/Qwen3-8B-DFlash-b16"} <= named
    view = drafters.verifier(ZLAB_8B)
    assert "z-lab/Qwen3-8B-DFlash-b16" in {item.drafter for item in like_verifier(view)}
    assert like_verifier(drafters.verifier(replace(ZLAB_8B, depth=35))) == []


def test_validate_says_what_was_published(tmp_path: Path) -> None:
    folder = tmp_path / "drafter"
    weightless(drafters.zlab(QWEN36_27B), folder)
    text = spectool("validate", str(folder)).out
    assert "looks like z-lab/Qwen3.6-27B-DFlash for Qwen/Qwen3.6-27B (config seen)" in text
    assert "was also published with aux layers 2, 11, 19, 28, 36, 45, 53, 62: pin the revision" in " ".join(
        text.split()
    )
    told = json.loads(spectool("validate", str(folder), "--format", "json").out)["published"]
    assert [item["drafter"] for item in told["known"]] == ["z-lab/Qwen3.6-27B-DFlash"]
    assert told["commit"] is None
    assert "looks like" not in spectool("validate", str(folder), "--quiet").out
    shown = spectool("validate", str(PAIRS / "dflash-zlab"), "--verifier", str(VERIFIER)).out
    assert "looks like" not in shown


def test_a_folder_that_bears_a_verifiers_name_is_asked_for_by_it(tmp_path: Path) -> None:
    config = {"architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 36, "vocab_size": 151936}
    for name in ("qwen3-8b", "finetune"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    named = spectool("inspect", str(tmp_path / "qwen3-8b")).out
    assert " 9 known drafters\n" in named
    like = spectool("inspect", str(tmp_path / "finetune")).out
    assert "known drafters for verifiers of these sizes\n" in like
    assert "Qwen/Qwen3-8B" in like  # whose they are


def test_inspect_lists_them() -> None:
    outcome = spectool("inspect", "Qwen/Qwen3-8B")
    assert outcome.code == 0
    assert "RedHatAI/Qwen3-8B-speculator.peagle" in outcome.out
    unknown = spectool("inspect", "nobody/nothing")
    assert unknown.out.startswith("nobody/nothing  0 known drafters")
    assert "HF_HUB_OFFLINE is set" in unknown.err
    assert spectool("inspect", str(VERIFIER)).code == 0
    assert "known drafter" not in spectool("inspect", str(PAIRS / "dflash-zlab")).out


def weightless(view: View, folder: Path) -> None:
    """Write a view's config and headers; the bytes are a hole."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(view.config))
    header, end = {}, 0
    for name, item in view.tensors.items():
        size = 2 * math.prod(item.shape)
        header[name] = {"dtype": "BF16", "shape": list(item.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + end)
