"""The deployment file: one drafter on one verifier on these GPUs, as a team keeps it in review (TOML or JSON).

A first form. `spectool serve FILE` reads it; flags that spectool works out itself need not stand in it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# `--set` knows the same keys; a test holds the two lists together.
SettingKey = Literal[
    "speculative_tokens",
    "mask_token_id",
    "block_size",
    "sample_from_anchor",
    "slot_layout",
    "aux_layer_convention",
    "verifier",
    "causal",
    "rope.partial",
    "rope.theta",
    "rope.attention_factor",
    "embedding_scale",
    "logit_scale",
    "value_scale",
]
FlagName = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Scalar = bool | int | float | str

EXAMPLE = {
    "deployment_version": 1,
    "drafter": "RedHatAI/Qwen3-30B-A3B-speculator.dflash",
    "verifier": "Qwen/Qwen3-30B-A3B",
    "gpus": "a100-80gb:2",
    "served_name": "qwen3-30b",
    "settings": {"speculative_tokens": 7},
    "vllm": {"reasoning-parser": "qwen3", "max-model-len": 32768},
}


class Deployment(BaseModel):
    """What to serve, and where."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    deployment_version: Literal[1] = Field(description="The form of this file.", examples=[1])
    drafter: str = Field(
        min_length=1,
        description="The drafter: a folder, `org/name` or `org/name@revision`.",
        examples=["RedHatAI/Qwen3-8B-speculator.peagle"],
    )
    verifier: str | None = Field(
        default=None,
        min_length=1,
        description="The verifier, in the same form. Absent: the one the drafter names.",
        examples=["Qwen/Qwen3-8B"],
    )
    gpus: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*:[1-9][0-9]{0,3}$",
        description="GPUs as `name:count`, the memory in the name where a card comes in two sizes.",
        examples=["a100-80gb:2", "h100-80gb:1"],
    )
    served_name: str | None = Field(
        default=None, min_length=1, description="The name under which clients ask for the model.", examples=["qwen3-8b"]
    )
    engine: str | None = Field(
        default=None,
        pattern=r"^vllm==[0-9]+\.[0-9]+(\.[0-9]+)?$",
        description="The vLLM release the file is meant for.",
        examples=["vllm==0.33.0"],
    )
    settings: dict[SettingKey, Scalar] = Field(
        default={},
        description="Answers to what the drafter does not say, as `--set` takes them.",
        examples=[{"speculative_tokens": 5}],
    )
    vllm: dict[FlagName, Scalar | list[Any] | dict[str, Any]] = Field(
        default={},
        description="Flags of `vllm serve` by their long names without dashes. true: the bare flag; false: --no-FLAG.",
        examples=[{"reasoning-parser": "qwen3", "max-model-len": 32768}],
        json_schema_extra={"additionalProperties": False},
    )
