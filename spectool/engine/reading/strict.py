"""Configuration classes hold each value against the key's type, and stop vLLM before it looks at a tensor.

Source: `data/config-classes.json`, and transformers 5.19 `configuration_utils.py` and `modeling_rope_utils.py`
(validate_layer_type, validate_rope, validate_architecture). Speculators files pass through the base class, which knows
layers and rope.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from spectool.dialects.dimensions import MOST_LAYERS
from spectool.engine.facts import EngineFacts
from spectool.engine.reading.record import Refusal
from spectool.formats.lookup import is_int
from spectool.resources import package_data

_KINDS: Mapping[str, Callable[[object], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "float": lambda value: isinstance(value, float),
    "int": is_int,
    "list[int]": lambda value: isinstance(value, list) and all(is_int(item) for item in value),
    "list[str]": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "null": lambda value: value is None,
    "object": lambda value: isinstance(value, dict),
    "str": lambda value: isinstance(value, str),
}
_WORDS = {"bool": "true or false", "float": "a number with a decimal point", "int": "a whole number", "str": "a text"}
_SHOWN = 40


@cache
def _document() -> Mapping[str, Any]:
    document: dict[str, Any] = json.loads(package_data("config-classes.json").read_text(encoding="utf-8"))
    return document


def class_faults(config: Mapping[str, Any], facts: EngineFacts) -> Iterator[Refusal]:
    """Yield what the class of a plain config.json (one with a model_type) refuses; the class raises the first.

    Nothing for a class whose keys are not known here, and for releases that run with a transformers of before.
    """
    document = _document()
    kind = config.get("model_type")
    fields = document["classes"].get(kind) if isinstance(kind, str) else None
    if fields is None or _order(facts.version) < _order(document["since"]):
        return
    for key, types in {**document["every"], **fields}.items():
        allowed = types.split("|")
        if key in config and not any(_KINDS[name](config[key]) for name in allowed):
            yield Refusal("CFG003", f"{key} is {_shown(config[key])}, and the {kind} class wants {_said(allowed)}")
    dtype = config.get("dtype", config.get("torch_dtype"))
    if dtype is not None and dtype not in document["dtypes"]:
        yield Refusal("CFG003", f"dtype is {_shown(dtype)}, which PyTorch has none of")
    width, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if kind == "llama" and is_int(heads) and is_int(width) and (heads < 1 or width % heads):
        yield Refusal("CFG003", f"hidden_size {width} is no multiple of num_attention_heads {heads}")
    yield from base_faults(config, facts)


def known_type(kind: str) -> bool:
    """Say whether a configuration class goes by a model_type, in any release known here."""
    return kind in _document()["model_types"].split()


def base_faults(config: Mapping[str, Any], facts: EngineFacts) -> Iterator[Refusal]:
    """Yield what the class refuses that every other inherits from, that of Speculators files too (flat here)."""
    document = _document()
    if _order(facts.version) >= _order(document["since"]):
        yield from _layers(config, document["layer_types"])
        yield from _rope(config, document["rope"])


def _layers(config: Mapping[str, Any], known: list[str]) -> Iterator[Refusal]:
    count, kinds = config.get("num_hidden_layers"), config.get("layer_types")
    absurd = not is_int(count) or not 0 < count <= MOST_LAYERS  # the number itself is the fault
    if isinstance(kinds, list) and not absurd and len(kinds) != count:
        yield Refusal("ATT002", f"layer_types has {len(kinds)} entries, and num_hidden_layers is {count}")
    if isinstance(kinds, list) and (strange := [item for item in kinds if item not in known]):
        yield Refusal("ATT002", f"layer_types names {_shown(strange[0])}, which is no kind of layer")


def _rope(config: Mapping[str, Any], needed: Mapping[str, list[str]]) -> Iterator[Refusal]:
    keys = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(keys, dict) or any(isinstance(value, dict) for value in keys.values()):
        return
    kind = keys.get("rope_type", keys.get("type", "default"))
    gone = [name for name in needed.get(kind, ()) if name not in keys] if isinstance(kind, str) else []
    if gone:
        yield Refusal("ROP001", f"rope_type {kind} needs {' and '.join(gone)}, which rope_parameters lacks")
    head, partial = config.get("head_dim"), keys.get("partial_rotary_factor", 1.0)
    if is_int(head) and head > 4 and head % 2 and partial == 1:
        yield Refusal("ROP001", f"head_dim is {head}: an odd number of dimensions cannot be rotated")


def _said(allowed: list[str]) -> str:
    named = [_WORDS.get(name, name) for name in allowed if name != "null"]
    return " or ".join([*named, *(["null"] if "null" in allowed else [])])


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
