"""A fault at a key of a document. Apart from the models that find such faults: those take time to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Path = tuple[str | int, ...]
FaultKind = Literal["missing", "type", "range", "choice", "doubled"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A structural fault: something a JSON Schema can say."""

    path: Path
    kind: FaultKind
    message: str

    @property
    def key(self) -> str:
        """The path as people write it: `a.b[0].c`."""
        return spell(self.path)


def spell(path: Path) -> str:
    """Write a path as people do: `speculators_config.proposal_methods[0].speculative_tokens`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the document"
