"""What readings look at: a parsed config and tensor headers, of a folder or of a planned output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

# A Markov head of rank 16 for the largest vocabulary in use (262,144) has half as many.
MAX_PROVED_VALUES = 2**23

PEEKED_BYTES = 2**9
"""Looked at before a tensor is read to prove that it is all zeros: a trained one is not in its first bytes."""


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
    """A drafter folder as readings see it. `read` gives the bytes of one small tensor, where there are bytes.

    `peek` gives the first bytes of any tensor. `zeros` names tensors a plan fills with zeros; for a folder that exists,
    its bytes say (`is_zero`).
    """

    name: str
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorHeader]
    read: Callable[[str], bytes] | None = None
    side_files: tuple[str, ...] = field(default=())
    zeros: frozenset[str] = frozenset()
    peek: Callable[[str, int], bytes] | None = None
    _proved: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def is_zero(self, name: str) -> bool:
        """Whether a tensor is known to hold nothing but zeros.

        Proved by its bytes, up to `MAX_PROVED_VALUES`: a larger one is never taken for zero, since no writer makes it.
        """
        if name in self.zeros or name not in self.tensors:
            return name in self.zeros
        if name not in self._proved:
            self._proved[name] = self._prove(name)
        return self._proved[name]

    def _prove(self, name: str) -> bool:
        if self.read is None or math.prod(self.tensors[name].shape) > MAX_PROVED_VALUES:
            return False
        if self.peek is not None and any(self.peek(name, PEEKED_BYTES)):
            return False
        data = self.read(name)
        return data.count(0) == len(data)
