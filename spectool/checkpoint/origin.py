"""Which commit of which repository a checkpoint was read at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """A commit of a repository of the Hub."""

    repo: str
    commit: str

    def __str__(self) -> str:
        return f"{self.repo}@{self.commit}"
