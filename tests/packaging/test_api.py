"""`spectool.api`: what people build on. A name that goes missing here is a broken promise."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from clean_run import run

from spectool import api
from spectool.report import api_page

PROMISED = {
    "DEFAULT_SHARD_BYTES",
    "ConversionPlan",
    "Description",
    "Finding",
    "Inspection",
    "Problem",
    "Report",
    "Row",
    "Selection",
    "Unknown",
    "Verification",
    "WrittenFile",
    "convert",
    "describe",
    "inspect",
    "plan_conversion",
    "plan_replay",
    "validate",
    "verify",
}


def test_what_was_promised_is_there() -> None:
    assert set(api.__all__) >= PROMISED


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_it_is_documented_and_typed(name: str) -> None:
    thing = getattr(api, name)
    if name == "DEFAULT_SHARD_BYTES":
        assert thing == 5 * 10**9
        return
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        signature = inspect.signature(thing)
        assert signature.return_annotation is not inspect.Signature.empty
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, f"{name}({parameter.name})"
    else:
        assert thing.__annotations__  # as written: what they name may be imported for checkers only


# A program that somebody else wrote. What it does wrong on purpose is ignored by kind: were a type lost on the way
# (`Any`), mypy would call that ignore unused.
DOWNSTREAM = """
from pathlib import Path

from spectool import api
from spectool.errors import RefusedError, SpectoolError


def convert(source: str, out: Path) -> list[str]:
    plan: api.ConversionPlan = api.plan_conversion(source, verifier="v", settings={"speculative_tokens": 5})
    files = api.convert(plan, out, progress=lambda done, total: print(done / total))
    return [f"{item.name} {item.nbytes} {item.sha256}" for item in files]


def errors(report: api.Report) -> dict[str, api.Finding]:
    return {item.code: item for item in report.findings if item.severity == "error" and item.line != 0}


def check(folder: str) -> bool:
    try:
        found: api.Inspection = api.inspect(folder)
        report = api.validate(folder, found=found, selection=api.Selection(codes=frozenset({"ATT001"})))
        proof: api.Verification = api.verify(Path(folder))
        problems: list[api.Problem] = list(proof.problems)
        rows: tuple[api.Row, ...] = report.rows
        gaps: tuple[api.Unknown, ...] = report.unknowns
        method: str = api.describe(folder).method
    except RefusedError as error:
        print(error.code, error.message, error.hint, error.exit_code)
    except SpectoolError as error:
        raise SystemExit(error.exit_code) from error
    return not (errors(report) or problems or rows or gaps or method)


api.validate(7)  # type: ignore[arg-type]
api.convert("out", Path())  # type: ignore[arg-type]
api.inspect("folder").no_such  # type: ignore[attr-defined]
api.no_such  # type: ignore[attr-defined]
size: str = api.DEFAULT_SHARD_BYTES  # type: ignore[assignment]
"""


def test_a_program_elsewhere_is_checked_against_the_installed_types(
    built, install: Callable[[Path], Path], tmp_path: Path
) -> None:
    python = install(built.wheel)
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "downstream.py").write_text(DOWNSTREAM, encoding="utf-8")
    (tmp_path / "program" / "mypy.ini").write_text("[mypy]\nstrict = true\nincremental = false\n", encoding="utf-8")
    told = run(sys.executable, "-m", "mypy", "--python-executable", python, "downstream.py", cwd=tmp_path / "program")
    assert "Success" in told


def test_the_page_shows_every_name() -> None:
    page = api_page.text()
    for name in api.__all__:
        assert f"### {name}\n" in page or f"- `{name} = " in page
