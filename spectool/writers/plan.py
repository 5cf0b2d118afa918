"""A planned output: config and tensors of a folder that does not exist yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spectool.dialects.view import Spec, View
from spectool.drafter.model import Drafter

Origin = Literal["source", "zeros", "computed", "verifier"]


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """One output tensor and where its bytes come from.

    `order` lists, per output column block, the input block it is taken from (None: bytes are copied as they are);
    `data` replaces the source's bytes where they are small and computed. `origin` zeros and computed: nothing is read,
    `source` is empty; verifier: `source` is one of its tensors, whose bf16 values are multiplied by `scale`. With
    `into` the source is row `row` of a copy of that tensor of the verifier.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    source: str
    operation: str
    order: tuple[int, ...] | None = None
    data: bytes | None = None
    origin: Origin = "source"
    scale: float = 1.0
    into: str = ""
    row: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """What has to hold before a byte is written: a source tensor has the bytes of the verifier's `copy_of`, scaled."""

    tensor: str
    copy_of: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Restore:
    """Where a dropped tensor is had again: from the verifier (`name`, times `scale`), as zeros, or computed."""

    origin: Literal["verifier", "zeros", "computed"]
    name: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class OutputPlan:
    """What a writer intends.

    `drafter` is the source's as it stands in the output: aux layers ascending, a scale that went into a tensor at 1.
    `settled` holds facts of training that the output format cannot say (keys of `--set`): the record carries them, so
    that a later reading of the output need not ask. `carrier`: the drafter is held by another method's kind.
    `format` is a name of `spectool.writers.formats.FORMATS`. `restore` says of dropped tensors where they can be had
    again, `proofs` what their bytes must show for that, `expected` which digests restored tensors must have.
    `known_zeros` are output tensors whose source holds nothing but zeros.
    """

    drafter: Drafter
    config: Mapping[str, Any]
    tensors: tuple[PlannedTensor, ...]
    dropped: Mapping[str, str]
    settled: Mapping[str, Any]
    notes: tuple[str, ...]
    carrier: bool = False
    format: str = "speculators"
    restore: Mapping[str, Restore] = field(default_factory=dict)
    proofs: tuple[Proof, ...] = ()
    expected: Mapping[str, str] = field(default_factory=dict)
    known_zeros: frozenset[str] = frozenset()

    def view(self, name: str) -> View:
        """Return the planned folder as readings see it."""
        specs = {item.name: Spec(item.dtype, item.shape) for item in self.tensors}
        zeros = frozenset(item.name for item in self.tensors if item.origin == "zeros")
        return View(name, self.config, specs, zeros=zeros | self.known_zeros)
