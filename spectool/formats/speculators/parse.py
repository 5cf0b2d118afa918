"""Parse a Speculators `config.json`: the model of its method, or every structural fault with the key it stands at."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from spectool.formats.faults import Fault, FaultKind, Path, spell
from spectool.formats.speculators.common import SpeculatorConfig
from spectool.formats.speculators.dflash import DFlashConfig
from spectool.formats.speculators.dspark import DSparkConfig
from spectool.formats.speculators.others import OTHERS
from spectool.formats.speculators.peagle import PEagleConfig

MODELS: dict[str, type[SpeculatorConfig]] = {"peagle": PEagleConfig, "dflash": DFlashConfig, "dspark": DSparkConfig}

_RANGE = {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "too_short", "too_long"}


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """A well-formed file. `model` checks a copy; what may be edited and written is the parsed JSON itself.

    `unknown` are keys no version of either side knows; `decimals` are whole numbers written as 5.0, which JSON Schema
    takes for integers and vLLM does not.
    """

    method: str
    model: SpeculatorConfig
    unknown: tuple[Path, ...]
    decimals: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Faulty:
    """A file that does not fit its format."""

    method: str | None
    faults: tuple[Fault, ...]


def is_speculators(document: object) -> bool:
    """Whether a document says it is a Speculators config, whatever else it says."""
    return isinstance(document, Mapping) and ("speculators_model_type" in document or "speculators_config" in document)


def parse_speculators(config: Mapping[str, Any]) -> ParsedConfig | Faulty:
    """Parse a Speculators config of a method spectool converts: `peagle`, `dflash` or `dspark`.

    Files of the methods in `OTHERS` are the caller's business: it recognises them by `speculators_model_type`.
    """
    method = config.get("speculators_model_type")
    if method is None:
        return Faulty(None, (Fault(("speculators_model_type",), "missing", "speculators_model_type is missing"),))
    if not isinstance(method, str) or method not in MODELS:
        known = ", ".join((*MODELS, *OTHERS))
        message = f"speculators_model_type is {_shown(method)}, not one of {known}"
        return Faulty(None, (Fault(("speculators_model_type",), "choice", message),))
    converted: list[float] = []
    try:
        model = MODELS[method].model_validate(config, context=converted)
    except ValidationError as error:
        return Faulty(method, faults_of(error))
    decimals = tuple(_decimals(model, config, ())) if converted else ()
    return ParsedConfig(method, model, tuple(unknown_keys(model)), decimals)


def faults_of(error: ValidationError) -> tuple[Fault, ...]:
    """Turn pydantic's errors into faults, one per place, in the order of the file format."""
    faults: dict[Path, Fault] = {}
    for detail in error.errors(include_url=False, include_context=True):
        path = tuple(detail["loc"])
        faults.setdefault(path, Fault(path, _kind(detail), f"{spell(path)} {says(detail)}"))
    return tuple(faults.values())


def unknown_keys(model: BaseModel, path: Path = ()) -> Iterator[Path]:
    """Yield the keys that no model knows, at any depth."""
    yield from ((*path, name) for name in model.model_extra or {})
    for name, value in _fields(model):
        if isinstance(value, BaseModel):
            yield from unknown_keys(value, (*path, name))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from unknown_keys(item, (*path, name, index))


def _decimals(value: object, raw: object, path: Path) -> Iterator[Path]:
    if isinstance(value, BaseModel) and isinstance(raw, Mapping):
        for name, item in _fields(value):
            if isinstance(item, int | list | BaseModel) and name in raw:
                yield from _decimals(item, raw[name], (*path, name))
    elif isinstance(value, list) and isinstance(raw, list):
        for index, (ours, theirs) in enumerate(zip(value, raw, strict=True)):
            yield from _decimals(ours, theirs, (*path, index))
    elif isinstance(raw, float):
        yield path


def _fields(model: BaseModel) -> ItemsView[str, Any]:
    # pydantic keeps fields in the instance's dictionary, and keys it does not know apart (`model_extra`).
    return vars(model).items()


def _kind(detail: ErrorDetails) -> FaultKind:
    kind = detail["type"]
    if kind == "missing":
        return "missing"
    if kind in _RANGE:
        return "range"
    if kind in {"literal_error", "enum"}:
        return "choice"
    return "doubled" if kind == "value_error" else "type"


_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def says(detail: ErrorDetails) -> str:
    """Say what is wrong at a place, to follow the key."""
    kind, given, context = detail["type"], _shown(detail["input"]), detail.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind in _WANTED:
        return f"is {given}, not {_WANTED[kind]}"
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"is {given}; it must be {words} {context.get(name)}"
    if kind == "literal_error":
        return f"is {given}, not {context.get('expected')}"
    if kind in {"too_short", "too_long"}:
        bound = context.get("min_length", context.get("max_length"))
        return f"has {context.get('actual_length')} entries, {'at least' if kind == 'too_short' else 'at most'} {bound}"
    if kind == "extra_forbidden":
        return "is no key of this format"
    if kind == "string_pattern_mismatch":
        return f"is {given}, which does not have the form {context.get('pattern')}"
    if kind == "value_error":
        return f"is {given}: {context.get('error')}"
    return f"is {given}: {detail['msg']}"


def _shown(value: object) -> str:
    words = {True: "true", False: "false", None: "null"}
    if value is None or isinstance(value, bool):
        return words[value]
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
