"""Everything a rule may look at, gathered once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spectool.dialects.record import Gap, Reading
from spectool.dialects.view import TensorHeader, View
from spectool.drafter.compare import Row, differences
from spectool.drafter.model import Drafter, Method
from spectool.engine.facts import EngineFacts
from spectool.engine.reading.record import EngineReading
from spectool.formats.verifier import VerifierView

if TYPE_CHECKING:
    from spectool.checkpoint.as_loaded import LoadedOtherwise
    from spectool.engine.choice import Choice
    from spectool.rules.launch import Launch
    from spectool.weights.record import Weights


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """What the planner says of a launch: why it refuses it, or what it does not know; both empty where it fits."""

    refused: str = ""
    hint: str | None = None
    unknown: str = ""


@dataclass(frozen=True)
class Context:
    """A drafter folder, its two readings, and the verifier. `shapes` are canonical names and shapes.

    `verifier` is None when none was given, or only its Hub id is known, and `verifier_config` its whole config.json;
    `verifier_whole`: `verifier_tensors` are all that it has; `loaded_otherwise`: which other files of the folder vLLM
    loads; `tokens` is K as it will be served; `weights` is what the tensors hold, where they were read; `choice` is how
    the release was asked for, where somebody asked; `launch` are the flags of the coming launch, which rules of the
    scope `launch` look at; `launched_plan` asks the planner for its verdict, where GPUs are named; `record_fault` is
    why the folder's record settles nothing.
    """

    view: View
    reading: Reading
    engine: EngineReading
    facts: EngineFacts
    verifier: VerifierView | None
    verifier_tensors: Mapping[str, TensorHeader] | None
    tokens: int | None
    verifier_config: Mapping[str, Any] | None = None
    verifier_whole: bool = False
    loaded_otherwise: LoadedOtherwise | None = None
    verifier_loaded_otherwise: LoadedOtherwise | None = None
    same_tokenizer: Callable[[], bool | None] = lambda: None
    weights: Weights | None = None
    choice: Choice | None = None
    launch: Launch | None = None
    launched_plan: Callable[[], PlanVerdict] | None = None
    record_fault: str | None = None

    @property
    def method(self) -> Method:
        """The drafter's method."""
        return self.reading.drafter.method

    @property
    def launched(self) -> Launch:
        """The launch. Rules of the scope `launch` run only where there is one."""
        if self.launch is None:
            raise AssertionError("a rule of the scope `launch` ran without a launch")
        return self.launch

    @property
    def drafter(self) -> Drafter:
        """The trainer's reading."""
        return self.reading.drafter

    @property
    def sized(self) -> bool:
        """Whether every size is known: without one, what tensors there should be cannot be said (rule CFG003)."""
        return not self.gaps("decoder", "dimensions")

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes by canonical name, after the dialect's operations."""
        placed = self.reading.placements.placed
        return {name: item.shape(self.view.tensors[item.source].shape) for name, item in placed.items()}

    @cached_property
    def differing(self) -> dict[str, Row]:
        """The fields in which the engine's reading differs, by field."""
        if self.engine.drafter is None:
            return {}
        return {row.field: row for row in differences(self.drafter, self.engine.drafter)}

    def gaps(self, *fields: str) -> list[Gap]:
        """Return what the trainer's reading could not take from the file, for these fields."""
        return [gap for gap in self.reading.gaps if gap.field in fields]

    def refused(self, code: str) -> list[str]:
        """Return what the engine trips over under a rule's code."""
        return [refusal.message for refusal in self.engine.refusals if refusal.code == code]
