"""Copies of the example pairs with one thing changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoints import read_back, write_checkpoint_folder

PAIRS = Path(__file__).resolve().parents[2] / "examples" / "pairs"
VERIFIER = PAIRS / "verifier"
NATIVE = {"dflash": "dflash-zlab", "dspark": "dspark-deepspec", "peagle": "peagle-native"}

Config = dict[str, Any]
Tensors = dict[str, tuple[str, tuple[int, ...], bytes]]
Change = Callable[[Config, Tensors], None]


def folder(base: Path, out: Path, change: Change) -> Path:
    """Copy a folder's config and tensors to `out`, changed in place by `change`."""
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    tensors = dict(read_back(base / "model.safetensors"))
    config = copy.deepcopy(config)
    change(config, tensors)
    return write_checkpoint_folder(out, config, tensors)


def put(path: str, value: Any) -> Change:
    """Set a dotted key (objects and list indices); the value `...` removes it."""

    def change(config: Config, tensors: Tensors) -> None:
        *parents, last = path.split(".")
        target: Any = config
        for part in parents:
            target = target[int(part)] if part.isdigit() else target[part]
        if value is ...:
            del target[last]
        else:
            target[int(last) if last.isdigit() else last] = value

    return change


def both(*changes: Change) -> Change:
    """Make several changes."""

    def change(config: Config, tensors: Tensors) -> None:
        for item in changes:
            item(config, tensors)

    return change


def without(*names: str) -> Change:
    """Remove tensors."""

    def change(config: Config, tensors: Tensors) -> None:
        for name in names:
            del tensors[name]

    return change


def with_zeros(name: str, *shape: int) -> Change:
    """Add a bf16 tensor of zeros, or replace one."""

    def change(config: Config, tensors: Tensors) -> None:
        size = 2
        for length in shape:
            size *= length
        tensors[name] = ("BF16", shape, bytes(size))

    return change


def with_int64(name: str, values: list[int]) -> Change:
    """Add an int64 vector."""

    def change(config: Config, tensors: Tensors) -> None:
        tensors[name] = ("I64", (len(values),), b"".join(value.to_bytes(8, "little", signed=True) for value in values))

    return change


def nothing(config: Config, tensors: Tensors) -> None:
    """Change nothing."""


# A DFlash drafter whose layers differ in kind: Speculators `dflash` cannot hold it.
MIXED = both(
    put("layer_types", ["sliding_attention", "full_attention"]),
    put("sliding_window", 8),
    put("use_sliding_window", True),
)
