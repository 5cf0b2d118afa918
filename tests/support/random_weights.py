"""Folders of the dialect fixtures with random weights: bf16 values near 0.05, norms near 1."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

from checkpoints import Tensors, write_checkpoint_folder, write_safetensors
from dialect_fixtures import Fixture

from spectool.dialects.view import TensorHeader

# High bytes of bf16: +-0.008 to +-0.12, and 0.5 to 2.
_SMALL = bytes((0x3C, 0x3D, 0xBC, 0xBD)[index % 4] for index in range(256))
_NEAR_ONE = bytes([0x3F]) * 256


def values(name: str, header: TensorHeader, source: random.Random, config: dict[str, object] | None = None) -> bytes:
    """Random content of one tensor. Vocabulary maps are full: offsets of zero, and every id used."""
    count = math.prod(header.shape)
    if header.dtype == "I64":
        return bytes(8 * count)
    if header.dtype == "BOOL":
        return b"\1" * count
    assert header.dtype == "BF16"
    high = source.randbytes(count).translate(_NEAR_ONE if "norm" in name else _SMALL)
    content = bytearray(2 * count)
    content[0::2], content[1::2] = source.randbytes(count), high
    return bytes(content)


def write_drafter(root: Path, fixture: Fixture, seed: int) -> Path:
    """The fixture's folder, with weights; returns `root`."""
    source = random.Random(seed)  # noqa: S311 - weights of a test, no secret
    tensors: Tensors = {
        name: (header.dtype, tuple(header.shape), values(name, header, source))
        for name, header in sorted(fixture.view.tensors.items())
    }
    return write_checkpoint_folder(root, fixture.view.config, {**tensors, **fixture.content})


def write_verifier(root: Path, fixture: Fixture, seed: int) -> Path:
    """The fixture's verifier: config, embedding and head; returns `root`."""
    source = random.Random(seed)  # noqa: S311 - weights of a test, no secret
    verifier = fixture.verifier
    root.mkdir(parents=True)
    config = {
        "architectures": list(verifier.architectures),
        "model_type": verifier.model_type,
        "hidden_size": verifier.hidden_size,
        "num_hidden_layers": verifier.num_hidden_layers,
        "vocab_size": verifier.vocab_size,
    }
    (root / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shape = (verifier.vocab_size, verifier.hidden_size)
    embedding = next(iter(fixture.verifier_tensors or ("model.embed_tokens.weight",)))
    size = math.prod(shape)
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for name in (embedding, "lm_head.weight"):
        content = bytearray(2 * size)
        content[0::2], content[1::2] = source.randbytes(size), source.randbytes(size).translate(_SMALL)
        tensors[name] = ("BF16", shape, bytes(content))
    write_safetensors(root / "model.safetensors", tensors, {"format": "pt"})
    return root
