"""Files for the reference forward: a drafter folder and the verifier it was trained for."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor


@dataclass(frozen=True)
class Verifier:
    """What a drafter borrows: the token embedding and head [vocab, width], bf16, and what the family does to them."""

    model_type: str
    layers: int
    width: int
    embedding: Tensor
    head: Tensor

    @staticmethod
    def read(root: Path) -> Verifier:
        config, tensors = json.loads((root / "config.json").read_text()), load_file(root / "model.safetensors")
        embedding = next(item for name, item in tensors.items() if name.endswith("embed_tokens.weight"))
        return Verifier(
            config["model_type"],
            config["num_hidden_layers"],
            config["hidden_size"],
            embedding,
            tensors.get("lm_head.weight", embedding),
        )

    def embedded(self) -> Tensor:
        """What the verifier's own embedding module gives.

        Gemma's multiplies by sqrt(width) rounded to the weight's dtype, in that dtype (transformers,
        Gemma3TextScaledWordEmbedding).
        """
        if self.model_type.startswith("gemma"):
            return self.embedding * torch.tensor(math.sqrt(self.width)).to(self.embedding.dtype)
        return self.embedding


@dataclass(frozen=True)
class Folder:
    """A drafter folder: its config, and its tensors, the floating ones in double precision."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]

    @staticmethod
    def read(root: Path) -> Folder:
        tensors: dict[str, Tensor] = {}
        for file in sorted(root.glob("*.safetensors")):
            tensors |= load_file(file)
        doubled = {name: item.double() if item.is_floating_point() else item for name, item in tensors.items()}
        return Folder(json.loads((root / "config.json").read_text()), doubled)

    def inside(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix`, without it."""
        return {name.removeprefix(prefix): item for name, item in self.tensors.items() if name.startswith(prefix)}
