"""Small checkpoints for tests, written by plain code that shares nothing with `spectool.checkpoint`."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import deserialize

Tensors = Mapping[str, tuple[str, tuple[int, ...], bytes]]
"""Name -> dtype, shape, bytes."""


def safetensors_bytes(header: bytes, data: bytes = b"") -> bytes:
    """A safetensors file of exactly this header and data, well-formed or not."""
    return struct.pack("<Q", len(header)) + header + data


def write_safetensors(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> None:
    """One safetensors file, its data in the order given."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    path.write_bytes(safetensors_bytes(json.dumps(header).encode(), data))


def write_checkpoint_folder(root: Path, config: Mapping[str, Any], tensors: Tensors) -> Path:
    """A folder with config.json and model.safetensors; returns `root`."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    write_safetensors(root / "model.safetensors", tensors, {"format": "pt"})
    return root


def write_sharded_folder(root: Path, config: Mapping[str, Any], shards: Mapping[str, Tensors]) -> Path:
    """A folder with config.json, an index, and one weight file per entry of `shards`; returns `root`."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for file, tensors in shards.items():
        write_safetensors(root / file, tensors, {"format": "pt"})
    total = sum(len(data) for tensors in shards.values() for _, _, data in tensors.values())
    weight_map = {name: file for file, tensors in shards.items() for name in tensors}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (root / "model.safetensors.index.json").write_text(json.dumps(index, indent=2), encoding="utf-8")
    return root


def read_back(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """All tensors of a safetensors file, as the `safetensors` package reads them."""
    return {
        name: (tensor["dtype"], tuple(tensor["shape"]), bytes(tensor["data"]))
        for name, tensor in deserialize(path.read_bytes())
    }


def read_back_folder(root: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """All tensors of all safetensors files of a folder; a name in two files is an error."""
    result: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for file in sorted(root.glob("*.safetensors")):
        found = read_back(file)
        assert not result.keys() & found.keys()
        result |= found
    return result


def names_in(folder: Path) -> list[str]:
    """The names in a folder, hidden ones too, sorted."""
    return sorted(path.name for path in folder.iterdir())
