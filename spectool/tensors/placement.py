"""Decide what becomes of every source tensor: placed under a canonical name, or dropped with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spectool.formats.dialect import DialectFile, TensorRule
from spectool.formats.pattern import readable


@dataclass(frozen=True, slots=True)
class Placed:
    """A source tensor and its canonical name. `op` is that of its rule."""

    source: str
    target: str
    op: str
    to_shape: tuple[int, ...] = ()

    def shape(self, source_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape after the operation; a -1 in a reshape stands for what is left.

        The shape is returned unchanged when it cannot be reshaped so: a rule then reports the mismatch.
        """
        if not self.to_shape:
            return source_shape
        size, known = 1, 1
        for length in source_shape:
            size *= length
        for length in self.to_shape:
            known *= length if length != -1 else 1
        if known == 0 or size % known:
            return source_shape
        return tuple(size // known if length == -1 else length for length in self.to_shape)


@dataclass(frozen=True, slots=True)
class Placements:
    """All source tensors. `unplaced` ones match no rule; `collisions` would be two tensors of one name."""

    placed: Mapping[str, Placed]
    dropped: Mapping[str, str]
    unplaced: tuple[str, ...]
    collisions: tuple[tuple[str, str, str], ...]


def place(names: Iterable[str], dialect: DialectFile) -> Placements:
    """Apply a dialect's tensor rules; the first whose whole pattern matches wins."""
    rules = [(re.compile(rule.from_), rule) for rule in dialect.tensor]
    placed: dict[str, Placed] = {}
    dropped: dict[str, str] = {}
    unplaced: list[str] = []
    collisions: list[tuple[str, str, str]] = []
    for name in sorted(names):
        tried = rules if readable(name) else []
        found = next(((match, rule) for pattern, rule in tried if (match := pattern.fullmatch(name))), None)
        if found is None:
            unplaced.append(name)
            continue
        match, rule = found
        if rule.op == "drop":
            dropped[name] = rule.why
            continue
        target = match.expand(rule.to) if rule.to else name
        if target in placed:
            collisions.append((placed[target].source, name, target))
            continue
        placed[target] = _placed(name, target, rule)
    return Placements(placed, dropped, tuple(unplaced), tuple(collisions))


def _placed(name: str, target: str, rule: TensorRule) -> Placed:
    return Placed(name, target, rule.op, rule.to_shape if rule.op == "reshape" else ())
