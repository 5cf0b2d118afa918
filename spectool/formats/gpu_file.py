"""The file in which a user names GPUs that spectool's catalogue does not have (TOML or JSON)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class OwnGpu(BaseModel):
    """One card."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*$")] = Field(
        description="The name `--gpus` takes. A name of the catalogue replaces that entry.", examples=["l20-48gb"]
    )
    memory_gib: float = Field(
        gt=0,
        lt=4096,
        description="Total memory in GiB as vLLM sees it (torch.cuda.mem_get_info), not the number on the box.",
        examples=[44.5],
    )
    compute_capability: Annotated[str, Field(pattern=r"^[0-9]{1,2}\.[0-9]$")] = Field(
        description="As CUDA writes it.", examples=["8.9"]
    )
    device_names: list[str] = Field(
        default=[], description="What the driver calls it, to recognise it.", examples=[["NVIDIA L20"]]
    )
    dtypes: list[str] = Field(
        default=["bf16", "fp16"], description="What its tensor cores compute in.", examples=[["bf16", "fp16", "fp8"]]
    )


class GpuFile(BaseModel):
    """All of them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    gpus: list[OwnGpu] = Field(min_length=1, description="The cards.")
