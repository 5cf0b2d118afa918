"""The file `spectool probe --sweep` writes and `spectool serve --profile` reads: speed by K and load on one machine."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_Strict = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ProfilePoint(BaseModel):
    """One measurement: `k` drafts (0: the verifier alone), `requests` at a time."""

    model_config = _Strict

    k: Annotated[int, Field(ge=0, le=1024)]
    requests: Annotated[int, Field(ge=1, le=65536)]
    tokens_per_second: Annotated[float, Field(gt=0, description="Output tokens of all requests per second.")]
    tokens_per_round: Annotated[
        float | None, Field(ge=1, description="Bonus token included; null without a drafter, or without counters.")
    ] = None
    completed: Annotated[int, Field(ge=1, description="Requests that were answered.")]


class Profile(BaseModel):
    """Speed by K and load. `synthetic_acceptance` is the tokens per round vLLM was told to act out, or null."""

    model_config = _Strict

    format: Literal["spectool profile 1"]
    drafter: str
    verifier: str
    method: Literal["peagle", "dflash", "dspark"]
    engine: str
    device: str
    workload: Annotated[str, Field(description="The file the prompts came from, or what stood in for one.")]
    workload_sha256: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")] = None
    output_tokens: Annotated[int, Field(ge=1)]
    synthetic_acceptance: Annotated[float | None, Field(ge=1)] = None
    points: Annotated[tuple[ProfilePoint, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _no_point_twice(self) -> Self:
        keys = [(point.k, point.requests) for point in self.points]
        if len(set(keys)) != len(keys):
            raise ValueError("a K and number of requests stands in it twice")
        return self
