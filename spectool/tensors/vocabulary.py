"""The map of a reduced vocabulary: `d2t` as offsets (target = draft + d2t[draft]) and `t2d` as a mask of the target's.

vLLM and Speculators read offsets. Some exporters store absolute ids under the same name; nothing but the values tells
them apart, so they are proved, not assumed.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from spectool.dialects.record import Reading
from spectool.dialects.view import View
from spectool.drafter.model import Dimensions
from spectool.errors import RefusedError
from spectool.writers.plan import PlannedTensor

Kind = Literal["offset", "absolute", "ambiguous", "neither"]
MAX_MAP = 2**19
"""Entries of a map that is proved, and of its vocabulary; the largest in use has 262,144."""
_CODES = {"I64": "q", "I32": "i"}


@dataclass(frozen=True, slots=True)
class MapProof:
    """What `d2t` turned out to be. `fault` says why nothing could be proved; `lone`: no `t2d` names its ids."""

    kind: Kind | None
    lone: bool
    zero: bool = False
    fault: str | None = None


def map_proof(view: View, reading: Reading) -> MapProof | None:
    """Prove the map of a reduced vocabulary; None where there is none to prove (rules VOC002, VOC003, TEN003).

    A `t2d` that names another number of ids than the drafter has is none: vLLM reads `d2t` alone.

    Raises:
        SourceError: a file cannot be read.

    """
    placed, size = reading.placements.placed, reading.drafter.dimensions
    if "d2t" not in placed or view.read is None or size.draft_vocab_size >= size.vocab_size:
        return None
    header = view.tensors[placed["d2t"].source]
    if header.shape != (size.draft_vocab_size,):
        return None
    if header.dtype not in _CODES:
        return MapProof(None, lone=True, fault=f"d2t has dtype {header.dtype}, not I64")
    if max(size.draft_vocab_size, size.vocab_size) > MAX_MAP:
        return MapProof(None, lone=True)
    mask = _mask(view, placed["t2d"].source, size) if "t2d" in placed else None
    values = _integers(view, placed["d2t"].source)
    return MapProof(prove(values, mask, size.vocab_size), lone=mask is None, zero=not any(values))


def _mask(view: View, name: str, size: Dimensions) -> bytes | None:
    header = view.tensors[name]
    if view.read is None or header.shape != (size.vocab_size,) or header.dtype not in {"BOOL", "U8"}:
        return None
    mask = view.read(name)
    return mask if len(mask) - mask.count(0) == size.draft_vocab_size else None


def prove(d2t: Sequence[int], t2d: Sequence[int] | None, vocab_size: int) -> Kind:
    """Tell what a map's values are.

    With `t2d` (one truth value per target id) the mapped set must equal it; without, offsets must map strictly
    ascending inside the vocabulary. Values that fit both readings differently are `ambiguous`.
    """
    offset = [draft + value for draft, value in enumerate(d2t)]
    absolute = list(d2t)
    fits = {"offset": _fits(offset, t2d, vocab_size), "absolute": _fits(absolute, t2d, vocab_size)}
    if all(fits.values()):
        return "offset" if offset == absolute else "ambiguous"
    if fits["offset"]:
        return "offset"
    return "absolute" if fits["absolute"] else "neither"


def _fits(targets: Sequence[int], t2d: Sequence[int] | None, vocab_size: int) -> bool:
    if any(not 0 <= target < vocab_size for target in targets) or len(set(targets)) != len(targets):
        return False
    if t2d is not None:
        return sorted(targets) == [target for target, used in enumerate(t2d) if used]
    return all(before < after for before, after in pairwise(targets))


def offsets(absolute: Sequence[int]) -> bytes:
    """Return absolute target ids as little-endian int64 offsets."""
    values = array("q", (target - draft for draft, target in enumerate(absolute)))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def plan_vocabulary(view: View, reading: Reading) -> tuple[list[PlannedTensor], dict[str, str]]:
    """Plan `d2t` and `t2d`: dropped for a full vocabulary, kept or turned into offsets for a reduced one.

    Raises:
        RefusedError: the values are no map of this vocabulary, or fit two readings.

    """
    placed = {name: item for name, item in reading.placements.placed.items() if item.op == "vocabulary"}
    size = reading.drafter.dimensions
    if size.draft_vocab_size == size.vocab_size:
        return [], {item.source: "the vocabulary is full: vLLM refuses a map then" for item in placed.values()}
    tensors = []
    for name, item in placed.items():
        header = view.tensors[item.source]
        tensors.append(PlannedTensor(name, header.dtype, header.shape, item.source, "keep"))
    if "d2t" not in placed or view.read is None:
        return tensors, {}
    values = _integers(view, placed["d2t"].source)
    mask = view.read(placed["t2d"].source) if "t2d" in placed else None
    kind = prove(values, mask, size.vocab_size)
    if kind == "offset":
        return tensors, {}
    if kind == "absolute":
        shape = (len(values),)
        made = PlannedTensor("d2t", "I64", shape, placed["d2t"].source, "absolute ids to offsets", data=offsets(values))
        return [made if tensor.name == "d2t" else tensor for tensor in tensors], {}
    reason = {
        "ambiguous": "fits both offsets and absolute ids",
        "neither": "maps outside the vocabulary, or not to t2d",
    }
    raise RefusedError(f"{view.name}: d2t {reason[kind]}", hint="Ask the publisher what it holds.", code="VOC002")


def _integers(view: View, name: str) -> array[int]:
    header = view.tensors[name]
    if header.dtype not in _CODES or view.read is None:
        raise RefusedError(f"{view.name}: {name} has dtype {header.dtype}, not I64", code="VOC002")
    values = array(_CODES[header.dtype])
    values.frombytes(view.read(name))
    if sys.byteorder == "big":
        values.byteswap()
    return values
