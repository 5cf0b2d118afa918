"""On which line a key stands, for files that parsed: a scan of JSON text, a search in TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from spectool.formats.faults import Path

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def json_lines(text: str) -> dict[Path, int]:
    """Return the line of every key and list entry of a valid JSON document, by path.

    A key stands where its name stands, a list entry where its value begins.
    """
    lines: dict[Path, int] = {(): 1}
    path: list[str | int] = []
    # Per open object or list: is it a list? `expects` is true where an object's next string is a key.
    inside: list[bool] = []
    expects = False
    line, end = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", end, token.start())
        end = token.start()
        word = token[0]
        if word in "]}":
            inside.pop()
            path.pop()
            expects = False
            continue
        if word == ",":
            if inside[-1]:
                path[-1] = int(path[-1]) + 1
            expects = not inside[-1]
            continue
        if word == ":":
            continue
        if expects:
            path[-1] = json.loads(word)
            lines[tuple(path)] = line
            expects = False
            continue
        if inside and inside[-1]:
            lines.setdefault(tuple(path), line)
        if word in "{[":
            inside.append(word == "[")
            path.append(0 if word == "[" else "")
            expects = word == "{"
    return lines


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of a key, or of the nearest object that is there."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def toml_line(text: str, path: Path) -> int:
    """Return the line of a key in TOML: its table's header, then its name below, then whatever is nearest.

    A search, not a parser: in the files of this project a key stands at the start of its line, or inside an inline
    table on the line of its parent.
    """
    rows = text.splitlines()
    first, last = _table(rows, path)
    names = [str(part) for part in path if isinstance(part, str)]
    for name in reversed(names):
        key = re.compile(rf"""\s*["']?{re.escape(name)}["']?(\s*=|\s*\.)""")
        for number in range(first, last):
            if key.match(rows[number]):
                return number + 1
    return max(first, 1)


def _table(rows: list[str], path: Path) -> tuple[int, int]:
    """Return the rows of the deepest table that is written with a header and holds the path."""
    best = (0, next((number for number, row in enumerate(rows) if row.lstrip().startswith("[")), len(rows)))
    depth, seen = 0, dict[str, int]()
    headers = [number for number, row in enumerate(rows) if row.lstrip().startswith("[")]
    for index, number in enumerate(headers):
        header = re.match(r"\s*(\[\[?)\s*([^\]]+?)\s*\]", rows[number])
        if header is None:
            continue
        name = header[2]
        seen[name] = seen.get(name, -1) + 1
        parts: Path = tuple(part.strip(" \"'") for part in name.split("."))
        if header[1] == "[[":
            parts = (*parts, seen[name])
        if path[: len(parts)] == parts and len(parts) > depth:
            depth = len(parts)
            best = (number + 1, headers[index + 1] if index + 1 < len(headers) else len(rows))
    return best
