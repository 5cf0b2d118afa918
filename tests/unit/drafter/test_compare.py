"""A carrier is equal to what it carries; nothing else is equal to another method."""

from __future__ import annotations

from dataclasses import replace

import drafters
import pytest
from drafters import Size
from readings import trained

from spectool.dialects.view import Spec, View
from spectool.drafter.compare import differences, show, unremarkable
from spectool.drafter.model import ZERO, Attention, Confidence, Drafter, Markov

DFLASH = trained(drafters.zlab(Size())).drafter
CARRIER = replace(DFLASH, method="dspark", markov=Markov(ZERO, 16))


def fields(left: Drafter, right: Drafter) -> list[str]:
    return [row.field for row in differences(left, right)]


def test_a_zero_head_makes_dspark_dflash() -> None:
    assert fields(DFLASH, CARRIER) == []
    assert fields(DFLASH, replace(CARRIER, markov=None)) == []
    assert fields(replace(CARRIER, markov=None), CARRIER) == []


def test_a_head_that_speaks_does_not() -> None:
    assert fields(DFLASH, replace(CARRIER, markov=Markov("vanilla", 16))) == ["method", "markov"]
    assert fields(CARRIER, replace(CARRIER, markov=Markov("vanilla", 16))) == ["markov"]
    assert fields(DFLASH, replace(CARRIER, confidence=Confidence(with_markov=False))) == [
        "method",
        "markov",
        "confidence",
    ]


def test_slots_and_attention_still_count() -> None:
    assert fields(DFLASH, replace(CARRIER, slots="anchor-first")) == ["slots"]
    causal = (Attention(None, causal=True),) * 2
    assert fields(DFLASH, replace(CARRIER, attention=causal)) == ["attention"]


def test_p_eagle_is_never_a_carrier() -> None:
    assert not trained(drafters.peagle(Size()), speculative_tokens=5).drafter.headless
    assert "method" in fields(replace(DFLASH, method="peagle"), DFLASH)


def view(data: bytes | None, shape: tuple[int, ...] = (4, 2)) -> View:
    return View("v", {}, {"w": Spec("BF16", shape)}, None if data is None else lambda name: data)


def test_zeros_are_proved_by_bytes_or_planned() -> None:
    assert view(bytes(16)).is_zero("w")
    assert not view(bytes(15) + b"\x01").is_zero("w")
    assert not view(None).is_zero("w")  # nothing to prove it by
    assert not view(bytes(16)).is_zero("other")
    assert replace(view(None), zeros=frozenset({"w"})).is_zero("w")


def test_a_large_head_is_not_read() -> None:
    def refuse(name: str) -> bytes:
        raise AssertionError(name)

    large = View("v", {}, {"w": Spec("BF16", (151936, 256))}, refuse)
    assert not large.is_zero("w")


def test_layers_that_attend_alike_are_one_span() -> None:
    sliding, full = Attention(4096, causal=True), Attention(None, causal=False)
    assert show((sliding,) * 5 + (full,)) == f"0-4: {sliding}; 5: {full}"
    assert show((full, sliding, full)) == f"0: {full}; 1: {sliding}; 2: {full}"
    assert show((sliding,) * 2) == f"2 x {sliding}"


@pytest.mark.parametrize(
    ("field", "shown", "quiet"),
    [
        ("embedding_scale", "1", True),
        ("embedding_scale", "1.5", False),
        ("mask_token_id", "1", False),
        ("aux_layers", "1", False),
        ("slots", "-", True),
        ("fc_norm", "no", True),
        ("fc_norm", "yes", False),
    ],
)
def test_what_says_nothing(field: str, shown: str, quiet: bool) -> None:
    assert unremarkable(field, shown) is quiet
