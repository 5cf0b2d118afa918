"""Layouts that are known and not converted (`spectool/data/recognised.toml`), so that they are refused by name.

An entry says what a folder is, why it has no exact form in the Speculators format, and what serves it instead.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spectool.formats.dialect import check_predicates


class Recognised(BaseModel):
    """One layout. The entries are tried in the order of the file, after all dialects."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9-]+$", description="How tests and people refer to it.")
    title: str = Field(description="What it is, after `... is `.")
    any: tuple[str, ...] = Field(min_length=1, description="Predicates as in a dialect file; one must hold.")
    none: tuple[str, ...] = Field(default=(), description="Predicates of which none may hold.")
    why: str = Field(description="Why it is not converted.")
    instead: str = Field(default="", description="A command or an engine that serves it.")
    code: str = Field(default="CFG001", description="The rule that explains the refusal.")
    sources: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _known_kinds(self) -> Recognised:
        check_predicates(*self.any, *self.none)
        return self


class RecognisedFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layout: tuple[Recognised, ...]
