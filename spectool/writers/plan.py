"""A planned output: config and tensors of a folder that does not exist yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spectool.dialects.view import Spec, View


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """One output tensor and where its bytes come from.

    `order` lists, per output column block, the input block it is taken from (None: bytes are copied as they are);
    `data` replaces the source's bytes where they are small and computed.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    source: str
    operation: str
    order: tuple[int, ...] | None = None
    data: bytes | None = None


@dataclass(frozen=True)
class OutputPlan:
    """What a writer intends.

    `settled` holds facts of training that the output format cannot say (keys of `--set`): the record carries them, so
    that a later reading of the output need not ask.
    """

    config: Mapping[str, Any]
    tensors: tuple[PlannedTensor, ...]
    dropped: Mapping[str, str]
    settled: Mapping[str, Any]
    notes: tuple[str, ...]

    def view(self, name: str) -> View:
        """Return the planned folder as readings see it."""
        return View(name, self.config, {item.name: Spec(item.dtype, item.shape) for item in self.tensors})
