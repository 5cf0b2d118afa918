"""The deployment file: one drafter on one verifier on these GPUs, as a team keeps it in review (YAML, TOML or JSON).

`spectool serve FILE` reads it; flags that spectool works out itself need not stand in it. Secrets never stand in it:
it names the variable or the Kubernetes secret that holds one.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spectool.formats.control import acting

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
    "tensors_under",
    "config_under",
]
# A card, how many of them in a machine, and how many machines: `h200:8x2`.
GPUS = r"^[a-z0-9]+([.-][a-z0-9]+)*:[1-9][0-9]{0,3}(x[1-9][0-9]{0,2})?$"
REFERENCE = r"^(env:[A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-._A-Za-z0-9]+)$"
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
FlagName = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Scalar = bool | int | float | str

EXAMPLE = {
    "deployment_version": 1,
    "drafter": "RedHatAI/Qwen3-30B-A3B-speculator.dflash",
    "verifier": "Qwen/Qwen3-30B-A3B",
    "gpus": "a100-80gb:2",
    "served_name": "qwen3-30b",
    "settings": {"speculative_tokens": 7},
    "expect": {"acceptance_length": 3.1},
    "secrets": {"HF_TOKEN": "secret:hub/token"},
    "cache": "/srv/models",
    "vllm": {"reasoning-parser": "qwen3", "max-model-len": 32768},
}


class Expectation(BaseModel):
    """What the drafter should reach here, from a measurement of your own (`spectool probe`)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    acceptance_length: float = Field(
        ge=1, le=64, description="Tokens per verification round, the verifier's own included.", examples=[3.1]
    )


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
        pattern=GPUS,
        description="GPUs as `name:count`, the memory in the name where a card comes in two sizes; "
        "`name:countxmachines` for several machines.",
        examples=["a100-80gb:2", "h200:8x2"],
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
    expect: Expectation | None = Field(
        default=None,
        description="What the check after the start compares with.",
        examples=[{"acceptance_length": 3.1}],
    )
    env: dict[VariableName, str] = Field(
        default={},
        description="Variables of the engine that are no secrets.",
        examples=[{"NCCL_SOCKET_IFNAME": "eth0"}],
        json_schema_extra={"additionalProperties": False},
    )
    secrets: dict[VariableName, Annotated[str, Field(pattern=REFERENCE)]] = Field(
        default={},
        description="Variables that hold secrets, and where their values come from: `env:NAME`, a variable where the "
        "command runs, or `secret:NAME/KEY`, a Kubernetes secret. Never the value itself.",
        examples=[{"HF_TOKEN": "env:HF_TOKEN", "VLLM_API_KEY": "secret:vllm/api-key"}],
        json_schema_extra={"additionalProperties": False},
    )
    image: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9][a-zA-Z0-9._:/@-]*$",
        description="The container image. Absent: vLLM's own of the release.",
        examples=["vllm/vllm-openai:v0.33.0"],
    )
    cache: str | None = Field(
        default=None,
        pattern=r"^(/[^:]*|claim:[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$",
        description="Where downloaded models stay: a folder, or `claim:NAME`, a Kubernetes volume claim.",
        examples=["/srv/models", "claim:models"],
    )
    shm_gib: int = Field(
        default=16, ge=1, le=1024, description="Shared memory of a container in GiB: the ranks talk through it."
    )
    start_seconds: int = Field(
        default=1800,
        ge=30,
        le=86400,
        description="How long a start may take: download, loading, compilation, graphs.",
    )
    stop_seconds: int = Field(
        default=60, ge=5, le=3600, description="From SIGTERM to SIGKILL. Requests may finish in all but the last ten."
    )

    @model_validator(mode="before")
    @classmethod
    def _only_what_is_seen(cls, content: Any) -> Any:
        """Refuse what a reviewer would not see, in this file or in what is written from it."""
        if places := list(acting(content)):
            raise ValueError(f"{places[0]} holds a control character, or one that turns the direction of writing")
        return content
