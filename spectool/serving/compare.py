"""Compare greedy outputs with and without a drafter.

Speculation is lossless in exact arithmetic. In bf16 the verifier, which checks several positions at once, adds in
another order, and a near-tie between two tokens may fall the other way. Such a difference is told, and is no fault;
where one token was clearly the best, it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spectool.serving.client import Completion

# Nats. bf16 keeps 8 bits: at logits around 20 neighbours are 0.125 apart, so reordered sums move a log-probability by a
# few tenths at most. Above that the drafter changed the output.
NEAR_TIE = 0.5


@dataclass(frozen=True)
class Difference:
    """The first place where two outputs part.

    Attributes:
        prompt: index of the prompt.
        index: of the first differing token, counted from 0.
        without: token without the drafter; None where that output has ended.
        with_drafter: token with it; None likewise.
        gap: log-probability of the best minus that of the second token at this place, without the drafter, in nats;
            None where the server did not tell.

    """

    prompt: int
    index: int
    without: int | None
    with_drafter: int | None
    gap: float | None

    @property
    def is_near_tie(self) -> bool:
        """Whether rounding explains it. An unknown gap explains nothing."""
        return self.gap is not None and not math.isnan(self.gap) and self.gap <= NEAR_TIE


def differences(without: Sequence[Completion], with_drafter: Sequence[Completion]) -> tuple[Difference, ...]:
    """Return the first difference of every prompt whose outputs differ, in order."""
    found = []
    for number, (plain, drafted) in enumerate(zip(without, with_drafter, strict=True)):
        if plain.tokens == drafted.tokens:
            continue
        shorter = min(len(plain.tokens), len(drafted.tokens))
        index = next((i for i in range(shorter) if plain.tokens[i] != drafted.tokens[i]), shorter)
        found.append(
            Difference(
                prompt=number,
                index=index,
                without=plain.tokens[index] if index < len(plain.tokens) else None,
                with_drafter=drafted.tokens[index] if index < len(drafted.tokens) else None,
                # Where one output has ended there is no tie to speak of.
                gap=plain.gaps[index] if index < shorter else None,
            )
        )
    return tuple(found)
