"""What a field of vLLM's configuration classes may hold, from its annotation in a source tree, without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

_HUMAN = "human_readable_int_args"
BOUNDS = {"ge": "least", "gt": "above", "le": "most", "lt": "below"}
_COLLECTIONS = ("list", "set", "tuple")
_PLAIN = {"bool", "int", "float", "str", "None"}
_WRAPPERS = ("SkipValidation", "Annotated", "InitVar", "Final")


class Types:
    """The classes, aliases and enumerations of some modules, and what their fields may hold."""

    def __init__(self, modules: Iterable[ast.Module], arguments: ast.Module) -> None:
        """Learn from modules; `arguments` is arg_utils.py, which says what takes numbers such as 8k."""
        self._classes: dict[str, ast.ClassDef] = {}
        self._aliases: dict[str, ast.Subscript] = {}
        self._enums: dict[str, list[int] | list[str]] = {}
        for module in modules:
            self._learn(module)
        self._human: set[Any] = set()
        for node in ast.walk(arguments):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Set) and name_of(node.targets[0]) == _HUMAN:
                self._human = {item.value for item in node.value.elts if isinstance(item, ast.Constant)}

    def _learn(self, module: ast.Module) -> None:
        for node in module.body:
            if isinstance(node, ast.ClassDef) and any("Enum" in name_of(base) for base in node.bases):
                members = [item for item in node.body if isinstance(item, ast.Assign)]
                values = [item.value.value for item in members if isinstance(item.value, ast.Constant)]
                whole = [value for value in values if isinstance(value, int)]
                names = [name_of(item.targets[0]) for item in members]
                self._enums[node.name] = whole if len(whole) == len(members) else names
            elif isinstance(node, ast.ClassDef):
                self._classes[node.name] = node
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Subscript):
                self._aliases[name_of(node.targets[0])] = node.value

    def names_of(self, enumeration: str) -> list[str]:
        """Return the members of an enumeration; empty where the release has none."""
        return [str(item) for item in self._enums.get(enumeration, ())]

    def literal_of(self, alias: str) -> list[str]:
        """Return the members of a Literal that has a name; empty where the release has none."""
        found = self._aliases.get(alias)
        return (
            []
            if found is None
            else [str(item.value) for item in self._members(found) if isinstance(item, ast.Constant)]
        )

    def _made(self, name: str) -> bool:
        """Whether a class is a configuration: one that JSON makes, and that refuses other keys."""
        node = self._classes.get(name)
        return node is not None and any(
            name_of(item.func if isinstance(item, ast.Call) else item) in ("config", "dataclass")
            for item in node.decorator_list
        )

    def flag(self, owner: str, name: str) -> dict[str, Any]:
        """Return what the parser takes for a field of a class, or of one it inherits from."""
        node = self._classes.get(owner)
        if node is None:
            return {}
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and name_of(item.target) == name:
                return self._takes(item.annotation, name) | bounds_of(item)
        return next((found for base in node.bases if (found := self.flag(name_of(base), name))), {})

    def _takes(self, annotation: ast.expr, name: str) -> dict[str, Any]:
        kinds = list(self._union(annotation))
        plain = {name_of(kind) for kind in kinds if not isinstance(kind, ast.Subscript)}
        empty = {"empty": True} if "None" in plain else {}
        literal = next((kind for kind in kinds if name_of(kind) == "Literal"), None)
        if plain == {"bool", "str", "None"}:
            return {"takes": "text", "maybe": True}
        if "bool" in plain:
            return {"takes": "yes-no"}
        if literal is not None:
            choices = sorted(set(literal_values(literal)), key=str)
            if any(not isinstance(item, str) for item in choices):
                return {"takes": "int" if all(isinstance(item, int) for item in choices) else "text"} | (
                    {"choices": choices} if "str" not in plain else {}
                )
            return {"takes": "text", **({} if "str" in plain else {"choices": choices}), **empty}
        for kind in kinds:
            if isinstance(kind, ast.Subscript) and name_of(kind) in _COLLECTIONS:
                held = ast.unparse(kind.slice)
                return {"takes": "int" if held == "int" else "text", "many": True, **empty}
        if "int" in plain:
            counted = "length" if name == "max_model_len" else "human" if name in self._human else "int"
            return {"takes": counted, **empty}
        if "float" in plain:
            return {"takes": "float", **empty}
        made = next((kind for kind in sorted(plain) if self._made(kind)), None)
        if made is not None:
            return {"takes": "object", "of": made, **empty}
        listed = next((self._enums[kind] for kind in plain & self._enums.keys()), [])
        if listed and all(isinstance(item, int) for item in listed) and plain <= self._enums.keys():
            return {"takes": "int", "choices": sorted(listed, key=int)}
        if any(name_of(kind) == "dict" for kind in kinds):
            return {"takes": "text" if "str" in plain else "json", **empty}
        return {"takes": "text", **empty}

    def _union(self, annotation: ast.expr) -> Iterator[ast.expr]:
        """Yield the members of an annotation, with aliases followed."""
        if isinstance(annotation, ast.BinOp):
            yield from self._union(annotation.left)
            yield from self._union(annotation.right)
        elif isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            yield from self._union(ast.parse(annotation.value, mode="eval").body)
        elif isinstance(annotation, ast.Subscript) and name_of(annotation.value) in _WRAPPERS:
            inner = annotation.slice
            yield from self._union(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
        elif isinstance(annotation, ast.Subscript) and name_of(annotation.value) == "Optional":
            yield from self._union(annotation.slice)
            yield ast.Constant(None)
        elif isinstance(annotation, ast.Name) and annotation.id in self._aliases:
            alias = self._aliases[annotation.id]
            if name_of(alias) == "Literal" and isinstance(alias, ast.Subscript):
                yield ast.Subscript(alias.value, ast.Tuple(list(self._members(alias)), ast.Load()), ast.Load())
            else:
                yield from self._union(alias)
        else:
            yield annotation

    def _members(self, literal: ast.Subscript) -> Iterator[ast.expr]:
        """Yield the members of a Literal, those of a Literal inside it too."""
        inner = literal.slice.elts if isinstance(literal.slice, ast.Tuple) else [literal.slice]
        for item in inner:
            alias = self._aliases.get(name_of(item))
            if alias is not None and isinstance(alias, ast.Subscript):
                yield from self._members(alias)
            else:
                yield item

    def fields(self, owner: str) -> dict[str, dict[str, Any]]:
        """Return the keys of a configuration class, and of each what JSON may hold there.

        `is`: bool, int, float, str, None, list, dict, or any where the annotation says more than that; `choices` and
        bounds as of a flag; `of` another class.
        """
        node = self._classes[owner]
        found: dict[str, dict[str, Any]] = {}
        for base in node.bases:
            if self._made(name_of(base)):
                found |= self.fields(name_of(base))
        for item in node.body:
            name = name_of(item.target) if isinstance(item, ast.AnnAssign) else "_"
            if isinstance(item, ast.AnnAssign) and not name.startswith("_") and name_of(item.annotation) != "ClassVar":
                found[name] = self._held(item.annotation) | bounds_of(item)
        return found

    def _held(self, annotation: ast.expr) -> dict[str, Any]:
        shape: dict[str, Any] = {"is": []}
        if name_of(annotation) == "SkipValidation":  # filled in by vLLM itself (config/speculative.py)
            return {"is": ["any"]}
        for kind in self._union(annotation):
            name = name_of(kind)
            if name == "Literal":
                shape["choices"] = list(dict.fromkeys([*shape.get("choices", []), *literal_values(kind)]))
            elif isinstance(kind, ast.Subscript) and name in (*_COLLECTIONS, "dict"):
                shape["is"].append("dict" if name == "dict" else "list")
            elif name in _PLAIN:
                shape["is"].append(name)
            elif self._made(name):
                shape["is"].append("dict")
                shape["of"] = name
            else:
                listed = [str(item) for item in self._enums.get(name, ())]
                return {"is": ["any"], **({"names": listed} if listed else {})}
        return shape

    def classes(self, wanted: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return these classes and those inside them, by name."""
        found: dict[str, dict[str, Any]] = {}
        due = sorted(set(wanted))
        while due:
            name = due.pop()
            if name in found or not self._made(name):
                continue
            found[name] = self.fields(name)
            due += [shape["of"] for shape in found[name].values() if "of" in shape]
        return dict(sorted(found.items()))


def bounds_of(item: ast.AnnAssign) -> dict[str, float]:
    """Return what `Field(ge=...)` says of a number."""
    if not isinstance(item.value, ast.Call) or name_of(item.value.func) != "Field":
        return {}
    found = {}
    for keyword in item.value.keywords:
        value = keyword.value
        sign = 1
        if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
            sign, value = -1, value.operand
        if keyword.arg in BOUNDS and isinstance(value, ast.Constant) and isinstance(value.value, int | float):
            found[BOUNDS[keyword.arg]] = sign * value.value
    return found


def literal_values(node: ast.expr) -> list[Any]:
    """Return the members of a Literal."""
    inner = node.slice if isinstance(node, ast.Subscript) else node
    items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    return [item.value for item in items if isinstance(item, ast.Constant)]


def name_of(node: ast.expr) -> str:
    """Return the last name of an expression: `x` of x, a.x and x[...]; "None" of None."""
    if isinstance(node, ast.Subscript):
        return name_of(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):
        return str(node.value)
    return node.id if isinstance(node, ast.Name) else ""
