"""`provenance.json`: where every byte of an output came from, and what was assumed on the way.

It holds no time and no absolute path, so that the same input gives the same record.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FILE = "provenance.json"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(_Strict):
    """A thing with a version or a digest."""

    name: str
    version: str | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class OutputFile(_Strict):
    """One file of the output, the record itself excepted."""

    name: str
    nbytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class TensorRecord(_Strict):
    """One tensor of the output."""

    name: str
    source: str
    operation: str


class AssumptionRecord(_Strict):
    """Something the source did not say."""

    field: str
    value: str
    why: str


class Provenance(_Strict):
    """The record of one conversion."""

    provenance_version: Literal[1] = 1
    tool: Named
    dialect: Named = Field(description="The dialect file and its digest.")
    source: Named = Field(description="The source folder's name and the digest of its config.json.")
    verifier: str = Field(description="What was written as verifier.name_or_path.")
    engine: str = Field(description="The vLLM release whose reading of the output equals the trainer's of the source.")
    evidence: str = Field(description="How well the dialect file is proved.")
    answers: dict[str, Any] = Field(description="What the user settled with --set.")
    settled: dict[str, Any] = Field(description="Facts of training the output format cannot say, as --set would.")
    assumptions: tuple[AssumptionRecord, ...]
    tensors: tuple[TensorRecord, ...]
    dropped: dict[str, str] = Field(description="Source tensors that were left out, with the reason.")
    files: tuple[OutputFile, ...]
