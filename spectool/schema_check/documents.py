"""Check the files whose format is all there is to check: deployment files, dialect files, provenance records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from spectool.formats.deployment import Deployment
from spectool.formats.dialect import DialectFile
from spectool.formats.provenance import Provenance
from spectool.formats.speculators.parse import Path
from spectool.schema_check.codes import FORMAT
from spectool.schema_check.record import Kind, Remark

MODELS: dict[Kind, type[BaseModel]] = {"deployment": Deployment, "dialect": DialectFile, "provenance": Provenance}


def check_document(kind: Kind, document: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield one remark per place that does not fit the format."""
    seen: set[Path] = set()
    try:
        MODELS[kind].model_validate(document)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path = _within(document, tuple(detail["loc"]))
            if path in seen:
                continue
            seen.add(path)
            yield Remark(path, FORMAT, "error", f"{_dotted(path)}: {_says(detail['msg'])}", _fix(kind, detail["type"]))


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


def _says(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _fix(kind: Kind, fault: str) -> str:
    if fault == "extra_forbidden":
        return f"Remove the key, or correct its name: `spectool schema show {kind}` lists them all."
    return f"`spectool schema show {kind}` says what is allowed."
