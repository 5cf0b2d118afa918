"""Read a file and say what it is. Files of other models are nobody's business here."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectool.checkpoint.json_text import parse_json
from spectool.checkpoint.small_file import read_small_text
from spectool.errors import SourceError
from spectool.formats.speculators import is_speculators
from spectool.formats.speculators.others import OTHERS
from spectool.formats.yaml_text import parse_yaml
from spectool.schema_check.record import Kind

MAX_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Document:
    """A file's text and content. `kind` is None for a file that is passed over, `why` says why.

    `lines` has the line of every key of a YAML file; of other files they are looked for when needed.
    """

    text: str
    content: Any
    kind: Kind | None
    why: str = ""
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)


def read_document(path: Path, kind: Kind | None) -> Document:
    """Read one file as the kind asked for, or find out what it is.

    Raises:
        SourceError: it cannot be read or parsed. JSON that only Python takes (`Infinity`, a key twice) is an error in
            a Speculators file alone: configs of other models do contain it.

    """
    if path.is_dir():
        inside = next((name for name in ("config.json", "serve.yaml") if (path / name).is_file()), None)
        raise SourceError(f"{path}: a folder, and files are checked", hint=f"Name {path / inside}." if inside else None)
    text = read_small_text(path, MAX_BYTES)
    if path.suffix == ".toml":
        return _toml(path, text, kind)
    if path.suffix in (".yaml", ".yml"):
        return _yaml(path, text, kind)
    try:
        content = parse_json(text, str(path))
    except SourceError:
        if kind in (None, "config") and _is_foreign(text):
            return Document(text, None, None, "a config of another model")
        raise
    if kind is not None and kind != "config":
        return Document(text, content, kind)
    found, why = _kind_of_json(path, content)
    if kind == "config" and found != "config":
        return Document(text, content, None, why or f"a {found} file")
    return Document(text, content, found, why)


def _is_foreign(text: str) -> bool:
    """Whether a document that strict JSON refuses is plain Python JSON without a trace of Speculators."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return not is_speculators(content)


def _toml(path: Path, text: str, kind: Kind | None) -> Document:
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SourceError(f"{path}: not valid TOML: {error}") from None
    if kind is None:
        kind = "dialect" if {"dialect", "match", "read"} & content.keys() else None
        kind = "deployment" if _is_deployment(path, content) else kind
    elif kind not in {"dialect", "deployment"}:
        return Document(text, content, None, f"TOML, and a {kind} file is JSON")
    return Document(text, content, kind, "" if kind else "no kind of file spectool knows")


def _yaml(path: Path, text: str, kind: Kind | None) -> Document:
    """Read YAML, which is a deployment file or none of ours: most YAML of a repository is somebody else's."""
    if kind not in (None, "deployment"):
        return Document(text, None, None, f"YAML, and a {kind} file is not")
    if kind is None and "deployment_version" not in text:
        return Document(text, None, None, "no kind of file spectool knows")
    content, lines = parse_yaml(text, str(path))
    return Document(text, content, "deployment", lines=lines)


def _kind_of_json(path: Path, content: Any) -> tuple[Kind | None, str]:
    if is_speculators(content):
        method = content.get("speculators_model_type")
        if isinstance(method, str) and method in OTHERS:
            return None, f"a Speculators {method} config: recognised, not checked ({OTHERS[method]})"
        return "config", ""
    if not isinstance(content, Mapping):
        return None, "no kind of file spectool knows"
    if "provenance_version" in content:
        return "provenance", ""
    if _is_deployment(path, content):
        return "deployment", ""
    if "model_type" in content or "architectures" in content:
        return None, "a config of another model"
    return None, "no kind of file spectool knows"


def _is_deployment(path: Path, content: Mapping[str, Any]) -> bool:
    return "deployment_version" in content or path.stem.endswith("deployment")
