"""A report as annotations of GitHub Actions: one line each, shown beside the file in a pull request."""

from __future__ import annotations

from spectool.api import Report
from spectool.report.addresses import shown
from spectool.report.counts import summary_text
from spectool.report.plain import printable
from spectool.rules.registry import Finding

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def github(report: Report) -> str:
    """Return one command per finding, one notice for all that could not be checked, and the count for the log."""
    lines = [_annotation(report, finding) for finding in report.findings]
    if report.unknowns:
        missing = "\n".join(f"{item.code}: {item.missing}" for item in report.unknowns)
        lines.append(f"::notice title={_property('not checked')}::{_data(missing)}")
    lines += [
        printable(f"ignored {item.finding.code} {_one_line(item.finding.message)} ({_one_line(item.reason)})")
        for item in report.suppressed
    ]
    lines.append(printable(f"spectool: {_one_line(report.drafter)}: {summary_text(report)}"))
    return "".join(f"{line}\n" for line in lines)


def _annotation(report: Report, finding: Finding) -> str:
    file = shown(report.folder / (finding.file or "config.json"))
    place = f"file={_property(file)}" + (f",line={finding.line}" if finding.line else "")
    title = _property(f"{finding.code} {finding.name}")
    said = _data("\n".join((finding.message, finding.fix)))
    return f"::{_LEVELS[finding.severity]} {place},title={title}::{said}"


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _one_line(text: str) -> str:
    return " ".join(text.split())
