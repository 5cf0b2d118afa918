"""What reading the weights brings back, for rules to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the rules import this module, and mostly nothing is read
    from spectool.weights.stream import Scan

Owner = Literal["drafter", "verifier"]


@dataclass(frozen=True, slots=True)
class MaskRow:
    """The mask token's row of the embedding the drafter runs with; without a `scan`, `missing` says what it needs."""

    token: int
    owner: Owner
    tensor: str | None
    scan: Scan | None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A tensor the verifier has as well. `equal` is None while `missing` says what the comparison needs."""

    source: str
    theirs: str | None
    nbytes: int
    equal: bool | None
    missing: str | None = None


@dataclass(frozen=True)
class Weights:
    """Scans by the file's own tensor names; copies by canonical name (`embed_tokens.weight`, `lm_head.weight`)."""

    scans: Mapping[str, Scan]
    mask: MaskRow | None
    copies: Mapping[str, Copy]
