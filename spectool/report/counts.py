"""What a report comes to, in a few words."""

from __future__ import annotations

from spectool.api import Report
from spectool.rules.registry import Severity, applicable

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


def is_clean(report: Report) -> bool:
    """Whether nothing was found, save what is ignored."""
    return not report.findings


def summary_text(report: Report) -> str:
    """Return one line that counts findings."""
    counts = {severity: sum(finding.severity == severity for finding in report.findings) for severity in SEVERITIES}
    parts = [f"{count} {severity}{'s' if count != 1 else ''}" for severity, count in counts.items() if count]
    if not parts:
        where = "" if not report.unknowns else " in what could be checked"
        if not ran_all(report):
            where = " by the rules that were selected"
        parts = [f"clean: nothing to report{where}"]
    if report.suppressed:
        parts.append(f"{len(report.suppressed)} ignored")
    return ", ".join(parts)


def ran_all(report: Report) -> bool:
    """Whether all rules about folders ran; `--select` leaves some out."""
    if report.method is None:
        return True
    return {item.code for item in applicable(report.method)} <= set(report.checked)
