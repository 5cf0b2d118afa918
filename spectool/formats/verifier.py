"""What a drafter needs to know of its verifier, from `config.json` and headers alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectool.errors import SourceError
from spectool.formats.lookup import is_int, is_number, lookup

# Where multimodal verifiers keep their language model's configuration.
NESTED = ("text_config", "llm_config", "language_config", "thinker_config.text_config")


class VerifierView(BaseModel):
    """A verifier: sizes of its language model, wherever the file nests them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="The folder or Hub id it was read from.")
    architectures: tuple[str, ...] = Field(description="As the file states them; the first decides the engine's class.")
    model_type: str | None = None
    hidden_size: int = Field(gt=0)
    num_hidden_layers: int = Field(gt=0)
    vocab_size: int = Field(gt=0)
    tie_word_embeddings: bool = False
    rope_theta: float | None = None
    rope_thetas: tuple[float, ...] = Field(
        default=(), description="Every base: one per kind of layer, where they differ."
    )
    max_position_embeddings: int | None = None
    quantization: str | None = Field(default=None, description="The method of `quantization_config`, if quantised.")
    nested_under: str | None = Field(default=None, description="The key that holds the language model, if nested.")


def verifier_view(name: str, config: Mapping[str, Any]) -> VerifierView:
    """Read a verifier's `config.json`.

    Nested language models, tied embeddings and both generations of rope keys (`rope_parameters` of transformers 5,
    `rope_theta` before) are understood.

    Raises:
        SourceError: the file lacks a size or states something that is no size.

    """
    nested, where = config, None
    if not is_int(config.get("num_hidden_layers")):
        for path in NESTED:
            candidate = lookup(config, path)
            if isinstance(candidate, dict) and is_int(candidate.get("num_hidden_layers")):
                nested, where = candidate, path
                break
    tied = config.get("tie_word_embeddings", nested.get("tie_word_embeddings", False))
    architectures = config.get("architectures") or nested.get("architectures") or ()
    fields = {
        "name": name,
        # Anything but a list is left for the model to refuse.
        "architectures": tuple(architectures) if isinstance(architectures, list) else architectures,
        "model_type": config.get("model_type"),
        "hidden_size": nested.get("hidden_size"),
        "num_hidden_layers": _depth(nested),
        "vocab_size": nested.get("vocab_size", config.get("vocab_size")),
        "tie_word_embeddings": bool(tied),
        "rope_theta": next(iter(_rope_thetas(nested)), None),
        "rope_thetas": _rope_thetas(nested),
        "max_position_embeddings": nested.get("max_position_embeddings"),
        "quantization": _quantization(config, nested),
        "nested_under": where,
    }
    try:
        return VerifierView.model_validate(fields)
    except ValidationError as error:
        faults = "; ".join(f"{fault['loc'][0] if fault['loc'] else '?'}: {fault['msg']}" for fault in error.errors())
        raise SourceError(
            f"{name}/config.json does not describe a verifier: {faults}",
            hint="Is --verifier the target model's folder?",
        ) from None


def _depth(config: Mapping[str, Any]) -> Any:
    """Return the number of layers; of hybrids that list their layers instead, the list's length.

    As transformers 5.19 `NemotronHConfig` has it: `layers_block_type`, or the older `hybrid_override_pattern`, one
    letter a layer.
    """
    stated = config.get("num_hidden_layers")
    if stated is not None:
        return stated
    kinds = config.get("layers_block_type")
    pattern = config.get("hybrid_override_pattern")
    return len(kinds) if isinstance(kinds, list) else len(pattern) if isinstance(pattern, str) else None


def _quantization(config: Mapping[str, Any], nested: Mapping[str, Any]) -> str | None:
    for holder in (config, nested):
        section = holder.get("quantization_config")
        if isinstance(section, dict):
            return str(section.get("quant_method") or section.get("quant_algo") or "unnamed method")
    return None


def _rope_thetas(config: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the bases in `rope_parameters`, flat or per kind of layer (full attention first), else `rope_theta`."""
    parameters = config.get("rope_parameters")
    nested = parameters if isinstance(parameters, dict) else {}
    kinds = sorted((name for name, value in nested.items() if isinstance(value, dict)), key="full_attention".__ne__)
    found = [nested.get("rope_theta"), *(nested[name].get("rope_theta") for name in kinds)]
    found = [value for value in found if is_number(value)] or [config.get("rope_theta")]
    return tuple(dict.fromkeys(float(value) for value in found if is_number(value)))
