"""What an engine's reading brings back."""

from __future__ import annotations

from dataclasses import dataclass

from spectool.drafter.model import Drafter


@dataclass(frozen=True, slots=True)
class Refusal:
    """The engine would not run this: `code` is the rule that explains it, `message` what the engine trips over."""

    code: str
    message: str


class EngineRefusedError(Exception):
    """Raised inside a reading where the engine could not go on."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(code, message)


@dataclass(frozen=True, slots=True)
class EngineReading:
    """What vLLM would run. `drafter` is None when it refuses before there is anything to compare."""

    version: str
    drafter: Drafter | None
    refusals: tuple[Refusal, ...]
