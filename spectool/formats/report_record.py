"""What `spectool validate --format json` prints."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MethodName = Literal["peagle", "dflash", "dspark"]


class Record(BaseModel):
    """An object of a printed record."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RowRecord(Record):
    """One field in both readings."""

    field: str = Field(description="The field's name.")
    label: str = Field(description="The field, for people.")
    trained: str = Field(description="As the drafter was trained.")
    run: str = Field(description="As the engine would run it.")
    equal: bool = Field(description="Whether the two agree.")


class FindingRecord(Record):
    """What a rule says."""

    code: str = Field(pattern=r"^[A-Z]{3}[0-9]{3}$", description="The rule; `spectool rule CODE` explains it.")
    name: str = Field(description="The rule's name.")
    severity: Literal["error", "warning", "note"] = Field(description="Errors make the exit code 1.")
    message: str = Field(description="What was found, with the values.")
    fix: str = Field(description="What to do.")
    trained: str | None = Field(description="The trainer's side, where two sides differ.")
    run: str | None = Field(description="The engine's side, where two sides differ.")
    file: str | None = Field(description="The file it stands in, relative to the drafter's folder.")
    line: int | None = Field(ge=1, description="The line of the key, or of the object a key is missing from.")
    key: str | None = Field(description="A key of config.json, or a tensor's name.")


class SuppressedRecord(Record):
    """A finding that is ignored on purpose and does not count."""

    finding: FindingRecord = Field(description="What the rule says.")
    reason: str = Field(description="Why it is ignored, as the command line or the configuration gives it.")


class UnknownRecord(Record):
    """A rule that could not be decided."""

    code: str = Field(description="The rule.")
    missing: str = Field(description="The fact it needs, with the option that supplies it.")


class AssumptionRecord(Record):
    """Something the source does not say, taken from a named convention."""

    field: str = Field(description="The field.")
    value: Any = Field(description="The value taken.")
    why: str = Field(description="The convention.")


class FigureRecord(Record):
    """Published acceptance lengths of one workload class."""

    workload: str = Field(description="chat, code or math.")
    speculative_tokens: int = Field(ge=1, description="K.")
    low: float = Field(ge=1, description="The least tokens per round over the data sets, bonus token included.")
    median: float = Field(ge=1, description="The median.")
    high: float = Field(ge=1, description="The most.")
    points: int = Field(ge=1, description="How many data sets.")
    source: str = Field(description="Where they were published.")


class KnownRecord(Record):
    """A published drafter, as far as its files were seen."""

    drafter: str = Field(description="Its Hub repository.")
    verifier: str = Field(description="Its verifier's.")
    method: MethodName
    dialect: str = Field(description="Its layout.")
    certainty: str = Field(description="`config seen`, `config partly seen` or `named only`.")
    revision: str | None = Field(description="The commit that was seen, or its first digits.")
    min_vllm: str | None = Field(description="The first vLLM release that has a class for it.")
    speculative_tokens: int | None = Field(description="K as trained.")
    verifier_layers: int | None = Field(description="The verifier's number of layers.")
    seen: dict[str, Any] = Field(description="The fields of its config that were seen.")
    acceptance: list[FigureRecord] = Field(description="What was published about it.")
    sources: list[str] = Field(description="Where all this was read.")


class PublishedRecord(Record):
    """What was published about the drafter at hand."""

    known: list[KnownRecord] = Field(description="The published drafters it looks like.")
    republished: list[KnownRecord] = Field(description="Other revisions of their repositories, with other layers.")
    commit: Literal["known", "another"] | None = Field(
        description="Of a repository: whether its commit is one that was seen; null where none was, or of a folder."
    )


class ReportRecord(Record):
    """A validation report."""

    drafter: str = Field(description="The drafter's folder name.")
    verifier: str | None = Field(description="The verifier, where one was given.")
    engine: str = Field(pattern=r"^vllm==", description="The vLLM release the report speaks about.")
    dialect: str | None = Field(description="What people call the drafter's layout; null when nothing could be read.")
    method: MethodName | None = Field(description="The method; null when nothing could be read.")
    readings: list[RowRecord] = Field(description="Both readings side by side; empty when nothing could be read.")
    findings: list[FindingRecord] = Field(description="By severity, then code.")
    suppressed: list[SuppressedRecord] = Field(description="Findings that are ignored, with the reason.")
    checked: list[str] = Field(description="Codes of the rules that ran.")
    unknown: list[UnknownRecord] = Field(description="What could not be checked.")
    assumptions: list[AssumptionRecord] = Field(description="What the source does not say.")
    published: PublishedRecord | None = Field(description="What is known of it; null when nothing could be read.")
