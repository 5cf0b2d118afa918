"""Check many files in one process: what each is, what is wrong with it, and on which line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spectool.checkpoint.folder import Checkpoint
from spectool.engine.facts import engine_facts
from spectool.errors import SourceError
from spectool.formats.faults import spell
from spectool.formats.provenance import FILE
from spectool.loading import recorded_answers
from spectool.schema_check.detect import Document, read_document
from spectool.schema_check.documents import check_document
from spectool.schema_check.positions import json_lines, line_of, toml_line
from spectool.schema_check.record import FileResult, Kind, Located, Remark
from spectool.schema_check.speculators import check_config


def check_files(
    files: Iterable[str | Path], *, kind: Kind | None = None, settings: Mapping[str, Any] | None = None
) -> Iterator[FileResult]:
    """Check files one by one.

    Args:
        files: their paths.
        kind: what they are meant to be; None to find out file by file.
        settings: answers to what configs do not say, as `--set` gives them.

    """
    facts = engine_facts(None)
    for file in files:
        path = Path(file)
        try:
            document = read_document(path, kind)
        except SourceError as error:
            yield FileResult(str(file), kind, "unreadable", why=error.message, hint=error.hint or "")
            continue
        if document.kind is None:
            yield FileResult(str(file), None, "passed over", why=document.why)
            continue
        if not isinstance(document.content, Mapping):
            remarks = [
                Remark((), "SCH002", "error", "the file holds no object", "It is not the kind of file it should be.")
            ]
        elif document.kind == "config":
            answers = {**_recorded(path, document), **(settings or {})}
            remarks = check_config(document.content, answers, facts)
        else:
            remarks = list(check_document(document.kind, document.content, path.name))
        located = tuple(_located(path, document, remarks))
        yield FileResult(str(file), document.kind, "findings" if located else "clean", located)


def _recorded(path: Path, document: Document) -> dict[str, Any]:
    """Return what a conversion's record beside the config settles, as `validate` takes it."""
    if path.name != "config.json" or not (path.parent / FILE).is_file():
        return {}
    answers, _ = recorded_answers(Checkpoint(path.parent, dict(document.content), document.text, {}, (), 0, ()))
    return answers


def _located(path: Path, document: Document, remarks: Iterable[Remark]) -> Iterator[Located]:
    lines = None
    for item in remarks:
        if document.lines:
            line = line_of(document.lines, item.path)
        elif path.suffix == ".toml":
            line = toml_line(document.text, item.path)
        else:
            lines = json_lines(document.text) if lines is None else lines
            line = line_of(lines, item.path)
        yield Located(line, spell(item.path) if item.path else "", item.code, item.severity, item.message, item.fix)
