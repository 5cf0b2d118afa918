"""What planning needs to know of a verifier, from its `config.json` alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from spectool.formats.lookup import is_int, lookup
from spectool.formats.verifier import NESTED
from spectool.resources import package_data

_EXPERT_COUNTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")


class UnknownError(Exception):
    """A figure that cannot be had; the message says what is missing. Never replaced by a default."""


@dataclass(frozen=True, slots=True)
class Family:
    """How vLLM treats a `model_type` (`spectool/data/planning/models.json`)."""

    model_type: str
    cache: str
    weights: str | None
    batch_floor: int | None
    source: str


@dataclass(frozen=True)
class Model:
    """A verifier's sizes. `config` is the whole file, `text` the part of it that describes the language model."""

    name: str
    config: Mapping[str, Any]
    text: Mapping[str, Any]
    family: Family | None

    def count(self, key: str) -> int:
        """Return a whole number of the language model.

        Raises:
            UnknownError: the file does not state it.

        """
        value = self.text.get(key)
        if not is_int(value) or value < 0:
            raise UnknownError(f"{self.name}/config.json states no {key}")
        return value

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return self.count("num_hidden_layers")

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.count("num_attention_heads")

    @property
    def kv_heads(self) -> int:
        """Key-value heads; as many as query heads where the file says nothing, as transformers has it."""
        value = self.text.get("num_key_value_heads")
        return value if is_int(value) else self.heads

    @property
    def head_dim(self) -> int:
        """Width of one head; hidden size over heads where the file says nothing, as transformers has it."""
        value = self.text.get("head_dim")
        return value if is_int(value) else self.count("hidden_size") // self.heads

    @property
    def experts(self) -> int:
        """Experts of a layer; 0 where the file names none (vLLM's ModelArchConfigConvertor.get_num_experts)."""
        values = (self.text.get(key) for key in _EXPERT_COUNTS)
        return next((value for value in values if is_int(value) and value > 0), 0)

    @property
    def longest(self) -> int | None:
        """The longest sequence it was made for, in tokens."""
        value = self.text.get("max_position_embeddings")
        return value if is_int(value) else None

    @property
    def tied(self) -> bool:
        """Whether the output layer is the embedding."""
        return bool(self.config.get("tie_word_embeddings", self.text.get("tie_word_embeddings", False)))

    @property
    def batch_floor(self) -> int:
        """The least `max_num_batched_tokens` it starts with."""
        if self.family is None or self.family.batch_floor is None or "vision_config" not in self.config:
            return 0
        return self.family.batch_floor


def model_of(name: str, config: Mapping[str, Any]) -> Model:
    """Read a verifier's `config.json`."""
    text: Mapping[str, Any] = config
    if not is_int(config.get("num_hidden_layers")):
        for path in NESTED:
            candidate = lookup(config, path)
            if isinstance(candidate, dict) and is_int(candidate.get("num_hidden_layers")):
                text = candidate
                break
    model_type = text.get("model_type") or config.get("model_type")
    return Model(name, config, text, families().get(str(model_type)))


@cache
def families() -> Mapping[str, Family]:
    """Return the known families by `model_type`."""
    document = json.loads(package_data("planning", "models.json").read_text(encoding="utf-8"))
    root = document["source"].removesuffix("<file>.py")
    return {
        name: Family(name, item["cache"], item["weights"], item.get("batch_floor"), f"{root}{item['file']}.py")
        for name, item in document["model_types"].items()
    }
