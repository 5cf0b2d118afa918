"""The vocabulary in which the models are written: types that read JSON strictly, and `key`, which records both sides.

Speculators writes a key and vLLM reads it, each with its own default. A model's default is the *trainer's*; vLLM's
stands beside it in the published schema (`x-vllm-default`), so that nobody has to remember that they differ.

Sources: `config.py` of each method in the wheels of Speculators 0.5.0, 0.6.0, 0.7.0, 0.8.1 and 0.9.0; vLLM 0.32 and
0.33 `transformers_utils/configs/speculators/algos.py` and the draft model classes; the first vLLM release that honours
a key from unpacked releases since 0.20.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

OLDEST_VLLM, NEWEST_VLLM = "0.20", "0.33"
NEWEST_SPECULATORS = "0.9"
MOST_LAYERS = 1000
"""No drafter has a hundredth of it; a larger number is a slip that readers would loop over."""
MOST_TOKENS = 1024
MOST = 2**31 - 1


class _NoDefault:
    """Marks a side that has no default: the key must be there."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _NoDefault()


class Part(BaseModel):
    """One object of a Speculators file. Keys that no model knows are kept, and reported by `unknown_keys`."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, protected_namespaces=())


def _whole(value: object, info: ValidationInfo) -> object:
    # To JSON Schema 5.0 is an integer. It is none to vLLM: whoever passes a list as context learns that there was one.
    if not isinstance(value, float) or not value.is_integer():
        return value
    if info.context is not None:
        info.context.append(value)
    return int(value)


def _distinct(values: list[int]) -> list[int]:
    if len(set(values)) != len(values):
        raise ValueError("an id stands in the list more than once")
    return values


# The bounds stand before the validator, where pydantic turns them into `minimum` and `maximum`.
Whole = Annotated[int, BeforeValidator(_whole)]
Size = Annotated[int, Field(ge=1, le=MOST), BeforeValidator(_whole)]
LayerCount = Annotated[int, Field(ge=1, le=MOST_LAYERS), BeforeValidator(_whole)]
Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS), BeforeValidator(_whole)]
TokenId = Annotated[int, Field(ge=0, le=MOST), BeforeValidator(_whole)]
LayerId = Annotated[int, Field(ge=0, le=MOST_LAYERS), BeforeValidator(_whole)]
LayerIds = Annotated[
    list[LayerId],
    Field(min_length=1, max_length=MOST_LAYERS, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_distinct),
]
Positive = Annotated[float, Field(gt=0, le=1e15)]
NotNegative = Annotated[float, Field(ge=0, le=1e15)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Finite = Annotated[float, Field(ge=-1e15, le=1e15)]


def key(
    description: str,
    *,
    default: Any = REQUIRED,
    vllm: Any = REQUIRED,
    written: str | None = f"0.5 to {NEWEST_SPECULATORS}",
    read: str | None = f"{OLDEST_VLLM} to {NEWEST_VLLM}",
    examples: Sequence[Any] = (),
) -> Any:
    """Describe one key of a file.

    Args:
        description: what it means, as an editor shows it.
        default: what absence means to Speculators; REQUIRED when the key must be there.
        vllm: what absence means to vLLM.
        written: the versions of Speculators that write the key; None when only people or other tools do.
        read: the versions of vLLM that heed it; None when it ignores the key.
        examples: values to offer.

    """
    extra: dict[str, Any] = {}
    if written is not None:
        extra["x-speculators-versions"] = written
    if default is not REQUIRED:
        extra["x-speculators-default"] = default
    if read is not None:
        extra["x-vllm-versions"] = read
        if vllm is not REQUIRED:
            extra["x-vllm-default"] = vllm
    return Field(
        default=... if default is REQUIRED else default,
        description=f"{description} {_absence(default, vllm, read)}".strip(),
        examples=list(examples) or None,
        json_schema_extra=extra,
    )


def _absence(default: Any, vllm: Any, read: str | None) -> str:
    """Say what a missing key means, where there is something to say."""
    if default is REQUIRED:
        return ""
    if read is None:
        return "vLLM ignores it."
    trainer, engine = _spell(default), "an error" if vllm is REQUIRED else _spell(vllm)
    if trainer == engine:
        return "" if default is None else f"Absent: {trainer}."
    return f"Absent: {trainer} to Speculators, {engine} to vLLM."


def _spell(value: Any) -> str:
    if value is None:
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else str(value)
