"""Check the files whose format is all there is to check: deployment files, dialect files, provenance records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from spectool.formats.deployment import Deployment
from spectool.formats.dialect import DialectFile
from spectool.formats.faults import Path
from spectool.formats.provenance import Provenance
from spectool.formats.speculators.parse import says
from spectool.planning.redact import is_secret_name, redact_text
from spectool.schema_check.codes import FORMAT
from spectool.schema_check.record import Kind, Remark

MODELS: dict[Kind, type[BaseModel]] = {"deployment": Deployment, "dialect": DialectFile, "provenance": Provenance}


def check_document(kind: Kind, document: Mapping[str, Any], filename: str) -> Iterator[Remark]:
    """Yield one remark per place that does not fit the format."""
    if kind == "dialect" and filename != f"{document.get('dialect', '')}.toml" and "dialect" in document:
        message = f"dialect is {document['dialect']!r}, the file is {filename}"
        yield Remark(("dialect",), FORMAT, "error", message, "A dialect file bears its dialect's name.")
    if kind == "deployment":
        yield from _secrets(document)
    seen: set[Path] = set()
    try:
        MODELS[kind].model_validate(document)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path = _within(document, tuple(detail["loc"]))
            if path in seen:
                continue
            seen.add(path)
            said = says(detail)
            if kind == "deployment" and path[:1] in (("secrets",), ("env",)):
                said = "is no reference of the form env:NAME or secret:NAME/KEY"  # what stands there may be a secret
            yield Remark(path, FORMAT, "error", f"{_dotted(path)} {said}", _fix(kind, path, detail["type"]))


def _secrets(document: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield the places where a secret stands in the open, without it."""
    fix = "Name where it comes from: secrets: {VLLM_API_KEY: env:VLLM_API_KEY}, or secret:NAME/KEY."
    for part in ("env", "vllm"):
        table = document.get(part)
        for key, value in table.items() if isinstance(table, Mapping) else ():
            text = value if isinstance(value, str) else json.dumps(value)
            if value is not None and (is_secret_name(str(key)) or redact_text(text) != text):
                yield Remark((part, key), FORMAT, "error", f"{part}.{key} holds a secret in the open", fix)


def _within(document: object, path: Path) -> Path:
    """Cut pydantic's location where it leaves the document: it names branches of a union and `[key]` as well."""
    kept: list[str | int] = []
    for index, part in enumerate(path):
        last = index == len(path) - 1
        if isinstance(document, Mapping) and isinstance(part, str) and (part in document or last):
            if part == "[key]":
                break
            kept.append(part)
            document = document.get(part)
        elif isinstance(document, list) and isinstance(part, int) and part < len(document):
            kept.append(part)
            document = document[part]
        else:
            break
    return tuple(kept)


def _dotted(path: Path) -> str:
    return ".".join(map(str, path)) or "the file"


def _fix(kind: Kind, path: Path, fault: str) -> str:
    if fault == "extra_forbidden":
        return f"Remove the key, or correct its name: `spectool schema show {kind}` lists them all."
    field = MODELS[kind].model_fields.get(str(path[0])) if path else None
    if len(path) == 1 and field is not None and field.examples:
        return f"For example {json.dumps(field.examples[0])}."
    return f"`spectool schema show {kind}` says what is allowed."
