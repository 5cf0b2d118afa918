"""What a trainer's reading brings back besides the drafter: where each value stood, what was assumed, what is open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spectool.dialects.catalogue import Dialect
from spectool.drafter.model import Drafter
from spectool.errors import QuestionError
from spectool.tensors.placement import Placements

GapKind = Literal["missing", "conflict", "malformed"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a field's value stood: a dotted key, `tensors`, `--set`, or the dialect's own convention."""

    field: str
    value: object
    where: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something the source does not say, taken from a convention that has a name."""

    field: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Question:
    """Something the source does not say and no convention settles. `key` is what `--set` takes."""

    key: str
    why: str
    plausible: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """A field the file must state and does not, or states in a way that cannot be read."""

    field: str
    kind: GapKind
    detail: str


@dataclass(frozen=True)
class Reading:
    """A trainer's reading. `declared` holds the decoder's sizes as the config states them, for rules to compare."""

    drafter: Drafter
    dialect: Dialect
    evidence: Mapping[str, Evidence]
    assumptions: tuple[Assumption, ...]
    questions: tuple[Question, ...]
    gaps: tuple[Gap, ...]
    placements: Placements
    declared: Mapping[str, int]
    verifier_layers: int | None
    verifier_name: str | None

    def require_answers(self) -> None:
        """Raise QuestionError for what is open, with the values that are plausible and the flag that answers."""
        if not self.questions:
            return
        lines, flags = [], []
        for question in self.questions:
            offer = f" Plausible: {', '.join(map(str, question.plausible))}." if question.plausible else ""
            lines.append(f"{question.key}: {question.why}.{offer}")
            flags.append(f"--set {question.key}={question.plausible[0] if question.plausible else 'VALUE'}")
        raise QuestionError(
            "the source does not say:\n  " + "\n  ".join(lines), hint="Answer with " + " ".join(flags) + "."
        )
