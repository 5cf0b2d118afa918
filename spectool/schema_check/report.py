"""Results of a check, as lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spectool.schema_check.record import FileResult


def lines_of(result: FileResult) -> list[str]:
    """Return `file:line: severity CODE message`, and the advice below it."""
    lines = []
    for item in result.findings:
        lines += [f"{result.file}:{item.line}: {item.severity} {item.code} {item.message}", f"    {item.fix}"]
    return lines


def summary(results: Sequence[FileResult]) -> str:
    """Return one line that counts."""
    by_status = {status: sum(result.status == status for result in results) for status in _WORDS}
    counted = [f"{count} {_WORDS[status]}" for status, count in by_status.items() if count]
    return f"{len(results)} file{'s' if len(results) != 1 else ''}: {', '.join(counted) or 'nothing to check'}"


_WORDS = {"clean": "clean", "findings": "with findings", "passed over": "passed over", "unreadable": "unreadable"}


def check_json(results: Sequence[FileResult]) -> dict[str, Any]:
    """Return all results as JSON data."""
    files = [
        {
            "file": result.file,
            "kind": result.kind,
            "status": result.status,
            "findings": [asdict(item) for item in result.findings],
            "why": result.why or None,
            "hint": result.hint or None,
        }
        for result in results
    ]
    return {"files": files}
