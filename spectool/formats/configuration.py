"""`spectool.toml`, or `[tool.spectool]` in `pyproject.toml`: what a project wants of `spectool validate`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Code = Annotated[str, Field(pattern=r"^[A-Z]{3}[0-9]{3}$")]
Prefix = Annotated[str, Field(pattern=r"^[A-Z]{1,3}[0-9]{0,3}$")]

EXAMPLE = {
    "fail-on": "warning",
    "engine": "vllm==0.33.0",
    "ignore": {"VER005": "we serve with the long form only"},
}


class Configuration(BaseModel):
    """Defaults of `spectool validate`; what the command line says wins."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    fail_on: Literal["error", "warning", "note", "never"] | None = Field(
        default=None,
        alias="fail-on",
        description="From which severity on the exit code is 1; error where nothing is said.",
        examples=["warning"],
    )
    select: list[Prefix] | None = Field(
        default=None,
        min_length=1,
        description="Codes of the rules to run, or beginnings of codes. Absent: all.",
        examples=[["ATT", "ROP", "SLT001"]],
    )
    ignore: dict[Code, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="Codes whose findings do not count, each with the reason, which reports repeat.",
        examples=[{"VER005": "we serve with the long form only"}],
        json_schema_extra={"additionalProperties": False},
    )
    gpu_file: str | None = Field(
        default=None,
        alias="gpu-file",
        min_length=1,
        description="GPUs that spectool does not know, for `serve --gpus`; beside this file.",
        examples=["gpus.toml"],
    )
    engine: str | None = Field(
        default=None,
        min_length=1,
        description="The vLLM release to speak about, `installed`, or a range, as `--engine` takes it.",
        examples=["vllm==0.33.0"],
    )
