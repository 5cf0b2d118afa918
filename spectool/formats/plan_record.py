"""What `spectool convert --dry-run --format json` prints."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from spectool.formats.report_record import AssumptionRecord, FindingRecord, MethodName, Record, UnknownRecord


class QuestionRecord(Record):
    """Something only the user can settle."""

    key: str = Field(description="What `--set` takes.")
    why: str = Field(description="Why the files cannot say.")
    plausible: list[int | str] = Field(description="Values to offer.")


class GapRecord(Record):
    """A field the file should state and does not."""

    field: str
    kind: Literal["missing", "conflict", "malformed"]
    detail: str


class SourceTensors(Record):
    """What becomes of the source's tensors."""

    placed: int = Field(ge=0, description="How many have a place in the drafter.")
    dropped: dict[str, str] = Field(description="Left out, with the reason.")
    unplaced: list[str] = Field(description="Not part of the layout.")


class SourceRecord(Record):
    """The source folder as its trainer means it (also `spectool inspect --format json`)."""

    drafter: str = Field(description="The folder's name.")
    dialect: str = Field(description="The dialect file.")
    title: str = Field(description="What people call the layout.")
    method: MethodName
    layout: Literal["native", "speculators", "foreign"]
    speculative_tokens: int | None = Field(description="K.")
    block_size: int | None = Field(description="Slots of one block; P-EAGLE has none.")
    fields: dict[str, str] = Field(description="Every field, as text.")
    evidence: dict[str, str] = Field(description="Where each value stands.")
    assumptions: list[AssumptionRecord]
    questions: list[QuestionRecord]
    gaps: list[GapRecord]
    tensors: SourceTensors
    total_bytes: int = Field(ge=0, description="Bytes of all tensors.")


class PlannedTensor(Record):
    """One tensor of the output."""

    name: str
    dtype: str = Field(description="As in safetensors headers.", examples=["BF16"])
    shape: list[int]
    source: str = Field(description="The source's tensor.")
    operation: str = Field(description="What is done with it.")


class RestoreRecord(Record):
    """Where a dropped tensor can be had again."""

    origin: Literal["verifier", "zeros", "computed"]
    name: str = Field(description="The verifier's tensor; empty for the others.")
    scale: float = Field(description="The factor on it.")


class PlanRecord(Record):
    """A conversion plan; no weight has been read for it."""

    source: SourceRecord
    format: Literal["speculators", "zlab", "deepspec", "specforge", "vllm"] = Field(description="The output format.")
    engine: str = Field(
        pattern=r"^vllm==",
        description="The release spoken of; its reading of the output equals the trainer's of the source where the "
        "format is speculators or vllm.",
    )
    verifier: str = Field(description="What will stand in verifier.name_or_path.")
    config: dict[str, Any] = Field(description="The config.json to be written.")
    tensors: list[PlannedTensor]
    dropped: dict[str, str] = Field(description="Source tensors that are left out, with the reason.")
    restore: dict[str, RestoreRecord] = Field(description="Where dropped tensors can be had again.")
    settled: dict[str, Any] = Field(description="Facts of training that the output cannot say, as --set would.")
    notes: list[str]
    findings: list[FindingRecord]
    unknown: list[UnknownRecord]
