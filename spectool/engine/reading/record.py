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


class EngineUnknownError(Exception):
    """Raised inside a reading where spectool does not know what the engine would do; it says what is missing."""


@dataclass(frozen=True, slots=True)
class EngineReading:
    """What vLLM would run.

    `drafter` is None when it refuses before there is anything to compare, and where what it does is not known:
    `unknown` then says what is missing.
    """

    version: str
    drafter: Drafter | None
    refusals: tuple[Refusal, ...]
    unknown: str = ""
