"""`provenance.json`: where every byte of an output came from, and what was assumed on the way.

It holds no time and no absolute path, so that the same input gives the same record.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FILE = "provenance.json"
DIGEST = r"^[0-9a-f]{64}$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(_Strict):
    """A thing with a version or a digest."""

    name: str
    version: str | None = None
    sha256: str | None = Field(default=None, pattern=DIGEST)


class Origin(_Strict):
    """A model something was read from: its folder's name or Hub repository, never a path."""

    name: str
    repository: str | None = Field(default=None, description="The Hub repository, where it was read from there.")
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$", description="Its commit, resolved.")
    sha256: str | None = Field(default=None, pattern=DIGEST, description="The digest of its config.json.")


class OutputFile(_Strict):
    """One file of the output, the record itself excepted."""

    name: str
    nbytes: int = Field(ge=0)
    sha256: str = Field(pattern=DIGEST)


class TensorRecord(_Strict):
    """One tensor of the output, and whose bytes it holds."""

    name: str
    origin: Literal["source", "verifier", "zeros", "computed"] = "source"
    source: str = Field(description="The tensor it was made of; empty where nothing was read.")
    operation: str
    scale: float = Field(default=1.0, description="The factor on the verifier's values.")
    sha256: str = Field(pattern=DIGEST, description="The digest of its bytes in the output.")


class DroppedRecord(_Strict):
    """A tensor of the source that was left out."""

    why: str
    origin: Literal["source", "verifier", "zeros", "computed"] = Field(
        default="source", description="Where it can be had again."
    )
    source: str = Field(default="", description="The verifier's tensor it equals.")
    scale: float = Field(default=1.0, description="The factor on that.")
    sha256: str | None = Field(
        default=None, pattern=DIGEST, description="The digest of its bytes, where they were read."
    )


class AssumptionRecord(_Strict):
    """Something the source did not say."""

    field: str
    value: str
    why: str


class ValueRecord(_Strict):
    """A field of the drafter as it was read."""

    value: str
    where: str = Field(description="A dotted key of the source's config.json, `tensors`, `--set`, or a convention.")


class Provenance(_Strict):
    """The record of one conversion."""

    provenance_version: Literal[1] = 1
    tool: Named
    dialect: Named = Field(description="The dialect file and its digest.")
    format: str = Field(default="speculators", description="The output format.")
    source: Origin
    verifier: Origin
    engine: str = Field(
        description="The vLLM release whose reading of the output equals the trainer's of the source; empty for a "
        "format that was not held against vLLM."
    )
    evidence: str = Field(description="How well the dialect file is proved.")
    shard_bytes: int = Field(gt=0, description="The size above which the weights were split.")
    licence: str = Field(default="", description="The licence the source's README.md names.")
    card: str = Field(default="", description="The repository a model card was written for; empty without a card.")
    answers: dict[str, Any] = Field(description="What the user settled with --set.")
    settled: dict[str, Any] = Field(description="Facts of training the output format cannot say, as --set would.")
    drafter: dict[str, ValueRecord] = Field(description="What the drafter is, field by field.")
    assumptions: tuple[AssumptionRecord, ...]
    notes: tuple[str, ...]
    tensors: tuple[TensorRecord, ...]
    dropped: dict[str, DroppedRecord] = Field(description="Source tensors that were left out.")
    files: tuple[OutputFile, ...]
    sha256: str = Field(
        default="", pattern=r"^([0-9a-f]{64})?$", description="The digest of this record with this field empty."
    )
