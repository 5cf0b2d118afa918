"""A report as SARIF 2.1.0, for code scanning and editors."""

from __future__ import annotations

import re
from typing import Any

from spectool import __version__
from spectool.api import Report
from spectool.report.addresses import HOME, rule_url, uri
from spectool.rules.registry import Finding, Rule, Unknown, rules

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
Json = dict[str, Any]
# What SARIF reads in a plain text: a link `[text](target)` and a place for an argument `{0}`.
_LINK = re.compile(r"\[(?=[^\]]*\]\()")
_ARGUMENT = re.compile(r"\{(\d+)\}")


def sarif(report: Report) -> Json:
    """Return a report as one SARIF log with one run; ignored findings are in it, marked as suppressed."""
    numbers = {code: number for number, code in enumerate(rules())}
    results = [_result(report, finding, numbers) for finding in report.findings]
    for item in report.suppressed:
        suppression = {"kind": "external", "status": "accepted", "justification": _text(item.reason)}
        results.append({**_result(report, item.finding, numbers), "suppressions": [suppression]})
    driver = {
        "name": "spectool",
        "fullName": f"spectool {__version__}",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": HOME,
        "rules": [_descriptor(rule) for rule in rules().values()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_notification(item, numbers) for item in report.unknowns],
            }
        ],
        "results": results,
        "columnKind": "utf16CodeUnits",
        "properties": {
            "drafter": report.drafter,
            "verifier": report.verifier,
            "engine": f"vllm=={report.engine}",
            "dialect": report.dialect,
            "method": report.method,
            "checked": list(report.checked),
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _descriptor(rule: Rule) -> Json:
    url = rule_url(rule.code)
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": _text(rule.summary)},
        "fullDescription": {"text": _text(f"{rule.summary} {rule.why}")},
        "help": {"text": _text(f"{rule.why} {rule.fix}"), "markdown": f"{rule.why}\n\n**Fix:** {rule.fix}"},
        "helpUri": url,
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"scope": rule.scope, "methods": list(rule.methods), "references": list(rule.references)},
    }


def _result(report: Report, finding: Finding, numbers: dict[str, int]) -> Json:
    file = report.folder / (finding.file or "config.json")
    # GitHub's code scanning wants a line of every result, of a weight file too.
    region = {"startLine": finding.line or 1}
    physical = {"artifactLocation": {"uri": uri(file)}, "region": region}
    location: Json = {"physicalLocation": physical}
    if finding.key:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.key}]
    sides = {"trained": finding.trained, "run": finding.run}
    return {
        "ruleId": finding.code,
        "ruleIndex": numbers[finding.code],
        "level": finding.severity,
        "message": {"text": _text(f"{_sentence(finding.message)} {finding.fix}")},
        "locations": [location],
        "properties": {"fix": finding.fix, **{name: value for name, value in sides.items() if value is not None}},
    }


def _notification(unknown: Unknown, numbers: dict[str, int]) -> Json:
    return {
        "level": "note",
        "message": {"text": _text(f"{unknown.code} was not checked. It needs {_sentence(unknown.missing)}")},
        "associatedRule": {"id": unknown.code, "index": numbers[unknown.code]},
    }


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _text(text: str) -> str:
    """Return text that SARIF shows as it is: no link and no argument is made of what a file contains."""
    return _ARGUMENT.sub(r"{{\1}}", _LINK.sub(r"\\[", text))
