"""Read the flags of `vllm serve` from a release's source tree, without importing it.

vLLM makes most flags from the fields of its configuration classes: the annotation decides what the parser takes
(vllm/engine/arg_utils.py, _compute_kwargs), `Field(ge=...)` what the class takes of that. `spectool.engine.wheel`
writes the result to `spectool/data/flags/X.json`; `spectool.planning.parser` reads command lines by it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from spectool.engine.annotations import BOUNDS, Types, name_of

if TYPE_CHECKING:
    from spectool.engine.wheel import Tree

_ARGUMENTS = "engine/arg_utils.py"
_MAKERS = ("entrypoints/common/cli_args.py", "entrypoints/launchers/cli_args.py", "entrypoints/openai/cli_args.py")
# Flags whose value is JSON though their annotation does not say so: arg_utils.py gives them their type by hand.
_JSON = {"--speculative-config", "--watermark-config", "--diffusion-config", "--default-chat-template-kwargs"}
_JSON |= {"--allowed-origins", "--allowed-methods", "--allowed-headers"}
# Lists by annotation, of which a flag takes one item (cli_args.py, _customize_cli_kwargs).
_SINGLE = {"--middleware", "--disable-access-log-for-endpoints"}


# Classes that vLLM makes for some models, or with some flags, only.
_SOMETIMES = {"MultiModalConfig", "LoRAConfig"}


def options(tree: Tree) -> dict[str, dict[str, Any]]:
    """Return the flags by their first name.

    Of each: `also` its other names; `takes` what follows (`switch`: nothing; `yes-no`: nothing, and `--no-X` is its
    opposite; `int`, `human` (8k), `length` (8k or auto), `float`, `json`, `object` (JSON too, `of` which class),
    `text`), `many` where several values may follow, `maybe` where one may, `choices`, `empty` where "" and "None" mean
    none, and bounds `least`, `above`, `most`, `below` of a number. `loose`: capitals and dashes count for nothing.
    """
    maker, types = next(name for name in _MAKERS if name in tree.files), types_of(tree)
    found: dict[str, dict[str, Any]] = {}
    for module in (ast.parse(tree.read(maker)), ast.parse(tree.read(_ARGUMENTS))):
        found |= dict(_flags(module, types))
    return dict(sorted(found.items()))


def types_of(tree: Tree) -> Types:
    """Return what a release's configuration classes may hold."""
    places = ("config/", "v1/attention/backends/registry.py", "model_executor/layers/quantization/__init__.py")
    names = sorted(name for name in tree.files if name.startswith(places) or name in _MAKERS)
    return Types((ast.parse(tree.read(name)) for name in names), ast.parse(tree.read(_ARGUMENTS)))


def _flags(module: ast.Module, types: Types) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every flag that a module's `add_argument` calls make."""
    groups = {}
    single: dict[str, ast.expr] = {}
    for node in ast.walk(module):
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(value, ast.Call) and name_of(value.func) == "get_kwargs":
            groups[name_of(node.targets[0])] = name_of(value.args[0])
        if isinstance(node, ast.Assign) and isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            single[name_of(node.targets[0])] = value  # moe_backend_kwargs = kernel_kwargs["moe_backend"]
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or name_of(node.func) != "add_argument":
            continue
        names = [item.value for item in node.args if isinstance(item, ast.Constant)]
        named = {item.arg: item.value for item in node.keywords if item.arg}
        spread: ast.expr | None = next((item.value for item in node.keywords if item.arg is None), None)
        if names and str(names[0]).startswith("-"):
            shape = _stated(named)
            if isinstance(spread, ast.Dict):  # **{**scheduler_kwargs["max_num_seqs"], "default": None}
                spread = next(
                    (value for key, value in zip(spread.keys, spread.values, strict=True) if key is None), None
                )
            loose = isinstance(spread, ast.Name) and spread.id in single
            if isinstance(spread, ast.Name):
                spread = single.get(spread.id)
            if isinstance(spread, ast.Subscript) and isinstance(spread.slice, ast.Constant):
                owner = groups.get(name_of(spread.value), "")
                shape = types.flag(owner, str(spread.slice.value)) | _stated(named)
                if owner in _SOMETIMES:  # its bounds are checked only then
                    shape = {key: value for key, value in shape.items() if key not in BOUNDS.values()}
                if loose and "choices" in shape:
                    shape["loose"] = True
            yield from _entry([str(name) for name in names], shape)
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and not name_of(item.target).startswith("_"):
                    name = name_of(item.target)
                    yield from _entry([f"--{name.replace('_', '-')}"], types.flag(node.name, name))


def _stated(named: dict[str, ast.expr]) -> dict[str, Any]:
    """Return what an `add_argument` call says itself."""
    found: dict[str, Any] = {}
    action, kind = named.get("action"), named.get("type")
    if action is not None:
        shown = ast.unparse(action)
        if "store_true" in shown:
            return {"takes": "switch"}
        found = {"takes": "yes-no"} if "BooleanOptionalAction" in shown else {}
    if isinstance(kind, ast.Name) and kind.id in ("int", "float", "str"):
        found["takes"] = "text" if kind.id == "str" else kind.id
    choices = named.get("choices")
    if isinstance(choices, ast.List | ast.Tuple) and all(isinstance(item, ast.Constant) for item in choices.elts):
        found["choices"] = [item.value for item in choices.elts if isinstance(item, ast.Constant)]
    if "nargs" in named and isinstance(named["nargs"], ast.Constant):
        found |= {"many": True} if named["nargs"].value in ("+", "*") else {"maybe": True}
    return found


def _entry(names: list[str], shape: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    first = next((name for name in names if name.startswith("--")), names[0])
    others = [name for name in names if name != first]
    entry = {"takes": "text", **shape}
    if first in _JSON:
        entry = {"takes": "json", **({"empty": True} if first.endswith("-config") else {})}
    if first in _SINGLE:
        entry.pop("many", None)
    yield first, {**({"also": others} if others else {}), **entry}
