"""A report as JUnit XML: one test case per rule that ran."""

from __future__ import annotations

import re
from collections.abc import Collection
from xml.etree import ElementTree as ET

from spectool.api import Report
from spectool.report.plain import printable
from spectool.rules.registry import Finding, Severity, rules

# What `printable` leaves and XML 1.0 forbids.
_NO_CHARACTERS = re.compile("[\ufffe\uffff]")


def junit(report: Report, failing: Collection[Severity]) -> str:
    """Return the document.

    A rule with a finding of a severity in `failing` failed; lighter findings are told in the output of a case that
    passed. A rule that could not be decided, or whose findings are ignored, was skipped.
    """
    suite = ET.Element("testsuite")
    counts = dict.fromkeys(("failures", "skipped"), 0)
    for code in report.checked:
        case = _case(report, code, failing)
        suite.append(case)
        counts["failures"] += case.find("failure") is not None
        counts["skipped"] += case.find("skipped") is not None
    names = {"tests": len(report.checked), "failures": counts["failures"], "errors": 0, "skipped": counts["skipped"]}
    suite.attrib |= {
        "name": _clean(f"spectool validate {report.drafter}"),
        **{name: str(count) for name, count in names.items()},
        "time": "0",
    }
    properties = ET.Element("properties")
    said = {"verifier": report.verifier, "engine": f"vllm=={report.engine}", "dialect": report.dialect}
    for name, value in said.items():
        if value is not None:
            ET.SubElement(properties, "property", name=name, value=_clean(value))
    suite.insert(0, properties)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(report: Report, code: str, failing: Collection[Severity]) -> ET.Element:
    rule = rules()[code]
    case = ET.Element("testcase", classname=f"spectool.{code[:3]}", name=f"{code} {rule.name}", time="0")
    findings = [finding for finding in report.findings if finding.code == code]
    unknowns = [item.missing for item in report.unknowns if item.code == code]
    ignored = [item for item in report.suppressed if item.finding.code == code]
    failed = [finding for finding in findings if finding.severity in failing]
    if failed:
        failure = ET.SubElement(case, "failure", type=rule.severity, message=_clean(failed[0].message))
        failure.text = _clean("\n".join(_told(finding) for finding in failed))
    elif unknowns:
        ET.SubElement(case, "skipped", message=_clean("not checked: it needs " + "; ".join(unknowns)))
    elif ignored:
        ET.SubElement(case, "skipped", message=_clean(f"ignored: {ignored[0].reason}"))
    told = [_told(finding) for finding in findings if finding not in failed]
    told += [f"ignored ({item.reason}): {_told(item.finding)}" for item in ignored]
    if told:
        ET.SubElement(case, "system-out").text = _clean("\n".join(told))
    return case


def _told(finding: Finding) -> str:
    place = ":".join(str(part) for part in (finding.file, finding.line) if part is not None)
    sides = "".join(
        f"\n  {name}: {side}"
        for name, side in (("trained as", finding.trained), ("run as", finding.run))
        if side is not None
    )
    return f"{place + ': ' if place else ''}{finding.severity} {finding.code} {finding.message}{sides}\n  {finding.fix}"


def _clean(text: str) -> str:
    return _NO_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), printable(text))
