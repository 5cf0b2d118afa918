"""What readings look at: a parsed config and tensor headers, of a folder or of a planned output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class TensorHeader(Protocol):
    """What a header says of a tensor."""

    @property
    def dtype(self) -> str:
        """The safetensors dtype name."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, outermost dimension first."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A tensor that is only planned."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class View:
    """A drafter folder as readings see it. `read` gives the bytes of one small tensor, where there are bytes."""

    name: str
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorHeader]
    read: Callable[[str], bytes] | None = None
    side_files: tuple[str, ...] = field(default=())
