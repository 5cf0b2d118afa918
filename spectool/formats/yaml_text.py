"""Read YAML as far as JSON goes: mappings with text keys, lists, text, numbers, true, false and null.

No anchors and no aliases: a few lines of them unfold to gigabytes. No tags, no key twice, no dates: `2026-01-01` is
text. Every value's line is kept, since a finding names it.
"""

from __future__ import annotations

import math
from typing import Any

from spectool.errors import SourceError

Path = tuple[str | int, ...]
MAX_CHARACTERS = 1 << 20
_DEEPEST = 64
_TAG = "tag:yaml.org,2002:"


def parse_yaml(text: str, name: str) -> tuple[Any, dict[Path, int]]:
    """Return a document's content, and the line of every key and list entry by path, from 1 up.

    Args:
        text: one YAML document.
        name: of the file, for messages.

    Raises:
        SourceError: it is no YAML, or says something that JSON cannot.

    """
    import yaml  # noqa: PLC0415 - only who reads YAML pays for it

    if len(text) > MAX_CHARACTERS:
        raise SourceError(f"{name} has more than {MAX_CHARACTERS} characters")
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            # At once: the parser's own work grows with the square of the depth.
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise SourceError(f"{name}: nested too deeply")
            anchor = getattr(event, "anchor", None)
            if anchor is not None:
                mark = event.start_mark
                where = f"line {mark.line + 1}" if mark is not None else "somewhere"
                raise SourceError(f"{name}: {where}: anchors and aliases are not read", hint="Write the value out.")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise SourceError(f"{name}: not valid YAML: {_said(error)}") from None
    except RecursionError:
        raise SourceError(f"{name}: nested too deeply") from None
    if root is None:
        return None, {(): 1}
    reader = _Reader(name)
    return reader.value(root, ()), reader.lines


class _Reader:
    """Turns nodes into values."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.lines: dict[Path, int] = {}

    def value(self, node: Any, path: Path) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if len(path) > _DEEPEST:
            raise SourceError(f"{self._name}: line {line}: nested too deeply")
        kind = node.tag.removeprefix(_TAG)
        if kind == "map" and isinstance(node.value, list):
            return self._mapping(node, path)
        if kind == "seq" and isinstance(node.value, list):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if kind in ("str", "timestamp", "value", "merge") and isinstance(node.value, str):
            return node.value
        return self._scalar(kind, node.value, line)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, item in node.value:
            line = key_node.start_mark.line + 1
            # 30 and on are written as keys by people who mean text; but a mapping as key is a slip.
            if not isinstance(key_node.value, str) or key_node.tag == f"{_TAG}merge":
                raise SourceError(f"{self._name}: line {line}: a key must be text")
            key = key_node.value
            if key in found:
                raise SourceError(f"{self._name}: line {line}: the key {key!r} stands twice")
            self.lines[(*path, key)] = line
            found[key] = self.value(item, (*path, key))
        return found

    def _scalar(self, kind: str, text: str, line: int) -> bool | int | float | None:
        import yaml  # noqa: PLC0415 - imported by parse_yaml already

        if kind == "null":
            return None
        try:
            if kind == "bool":
                return bool(yaml.SafeLoader.bool_values[text.lower()])
            if kind == "int":
                return int(text.replace("_", ""), 0) if ":" not in text else _refuse(text)
            if kind == "float":
                number = float(text.replace("_", "")) if ":" not in text else _refuse(text)
                if math.isfinite(number):
                    return number
        except (ValueError, KeyError, AttributeError):
            pass
        shown = text if isinstance(text, str) else kind
        raise SourceError(
            f"{self._name}: line {line}: {shown[:40]!r} is neither text nor a number that JSON has",
            hint="Put text into quotes.",
        )


def _refuse(text: str) -> int:
    """Refuse YAML 1.1's base-60 numbers (`8000:80`): nobody means them."""
    raise ValueError(text)


def _said(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    parts = (getattr(error, "context", None), getattr(error, "problem", None))
    problem = ", ".join(filter(None, parts)) or str(error).split("\n")[0]
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)
