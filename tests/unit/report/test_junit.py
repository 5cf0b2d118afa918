"""JUnit: one case per rule that ran, and XML whatever a drafter contains."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from mutations import NATIVE, PAIRS, VERIFIER, both, folder, put, with_zeros

from spectool import api
from spectool.configuration.selection import make_selection
from spectool.report.junit import junit

PARTIAL = put("rope_parameters.partial_rotary_factor", 0.25)


def suite_of(report: api.Report, failing: tuple[str, ...] = ("error",)) -> ET.Element:
    suite = ET.fromstring(junit(report, failing)).find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    cases = suite.findall("testcase")
    assert int(suite.attrib["tests"]) == len(cases)
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
    return suite


def case(suite: ET.Element, code: str) -> ET.Element:
    [found] = [item for item in suite.findall("testcase") if item.attrib["name"].startswith(code)]
    return found


def test_every_rule_that_ran_is_a_case(tmp_path: Path) -> None:
    report = api.validate(str(PAIRS / NATIVE["dspark"]), verifier=str(VERIFIER))
    suite = suite_of(report)
    assert [item.attrib["name"][:6] for item in suite.findall("testcase")] == list(report.checked)
    assert suite.attrib["failures"] == suite.attrib["skipped"] == "0"
    assert "SCH001" not in report.checked
    assert "MSK003" not in report.checked  # a rule of P-EAGLE


def test_passed_failed_and_skipped(tmp_path: Path) -> None:
    suite = suite_of(api.validate(str(folder(PAIRS / "dflash-zlab", tmp_path / "d", PARTIAL))))
    failure = case(suite, "ROP002").find("failure")
    assert failure is not None
    assert "trained as: default, theta 10000, 32 dims rotated" in (failure.text or "")
    assert len(case(suite, "ROP001")) == 0
    skipped = case(suite, "VER001").find("skipped")
    assert skipped is not None
    assert "--verifier" in skipped.attrib["message"]


def test_lighter_findings_are_told_in_a_case_that_passed(tmp_path: Path) -> None:
    base = tmp_path / "out"
    api.convert(api.plan_conversion(str(PAIRS / "dspark-deepspec"), verifier=str(VERIFIER)), base)
    absent = both(put("enable_confidence_head", ...), put("confidence_head_with_markov", ...))
    report = api.validate(str(folder(base, tmp_path / "d", absent)), verifier=str(VERIFIER))
    assert case(suite_of(report), "HED003").find("failure") is None
    assert "warning HED003" in (case(suite_of(report), "HED003").findtext("system-out") or "")
    assert case(suite_of(report, ("error", "warning")), "HED003").find("failure") is not None


def test_what_is_ignored_is_skipped_with_the_reason(tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", PARTIAL)
    selection = make_selection((), {"ROP002": 'trained "so" & <well>'})
    found = case(suite_of(api.validate(str(broken), verifier=str(VERIFIER), selection=selection)), "ROP002")
    skipped = found.find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == 'ignored: trained "so" & <well>'
    assert "ROP002 rope is not run" in (found.findtext("system-out") or "")


@pytest.mark.parametrize("name", ["\x01\x08\x1b[1m", "\ufffe\uffff", "]]><a&b>\"'", "\x85\u2028", "a\nb\tc"])
def test_no_name_breaks_the_document(name: str, tmp_path: Path) -> None:
    broken = folder(PAIRS / "dflash-zlab", tmp_path / "d", both(with_zeros(name, 4), PARTIAL))
    suite = suite_of(api.validate(str(broken), verifier=str(VERIFIER)))
    assert case(suite, "TEN002").find("failure") is not None
