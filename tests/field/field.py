"""Confirm the dialect files on the published drafters: plans from headers, held against the stored ones.

    python tests/field/field.py [--list FILE] [--plans FOLDER] [--out FOLDER] [--only ORG/NAME ...]

Needs the Hub. Nothing but configs, indexes and headers is fetched. Exit code 0: every plan equals its stored one; 1:
one differs; 2: none differs, but some could not be made, or have nothing to be compared with.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectool.cli.options import parse_settings
from spectool.conversion import plan_conversion
from spectool.errors import CannotRunError, SourceError, SpectoolError
from spectool.hub.mirror import mirror_of
from spectool.hub.reference import Reference
from spectool.inspection import inspect
from spectool.report.jsonable import inspection_json, plan_json
from spectool.report.plain import printable

HERE = Path(__file__).resolve().parent
SHOWN_LINES = 40


@dataclass(frozen=True)
class Case:
    """A drafter and its verifier, with revisions: commits, or branches to be resolved."""

    drafter: str
    revision: str
    verifier: str
    verifier_revision: str = "main"
    set: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The name of its plan."""
        return f"{self.drafter.replace('/', '--')}.json"


def cases(path: Path) -> list[Case]:
    """Read the list."""
    return [Case(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["repository"]]


def plan_of(case: Case, stored: dict[str, Any] | None) -> dict[str, Any]:
    """Make a plan: at the commits of the stored one, where there is one."""
    commits = stored or {}
    drafter = mirror_of(Reference(case.drafter, commits.get("commit", case.revision))).repository
    verifier = mirror_of(Reference(case.verifier, commits.get("verifier_commit", case.verifier_revision))).repository
    where = f"{case.drafter}@{drafter.commit}", f"{case.verifier}@{verifier.commit}"
    settings = parse_settings([f"{key}={value}" for key, value in case.set.items()])
    found: dict[str, Any] = {
        "drafter": case.drafter,
        "commit": drafter.commit,
        "verifier": case.verifier,
        "verifier_commit": verifier.commit,
        "set": case.set,
    }
    try:
        found["inspection"] = inspection_json(inspect(where[0], verifier=where[1], settings=settings))
        found["plan"] = plan_json(plan_conversion(where[0], verifier=where[1], settings=settings))
    except SourceError:
        raise  # it could not be read, which says nothing about the dialect files
    except SpectoolError as error:
        # Refusals, and questions the repository leaves open, are what the dialect files say of it.
        found["answer"] = {"kind": type(error).__name__, "code": error.code, "message": error.message}
    return found


def check(case: Case, plans: Path, out: Path) -> str:
    """Make one plan and compare it; returns "equal", "differs", "new" or "failed", having said why."""
    path = plans / case.file
    stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    try:
        text = json.dumps(plan_of(case, stored), indent=2, ensure_ascii=False) + "\n"
    except CannotRunError as error:
        say(f"FAILED  {case.drafter}: {error.message}")
        if error.hint:
            say(f"        {error.hint}")
        return "failed"
    if stored is None or text != path.read_text(encoding="utf-8"):
        out.mkdir(parents=True, exist_ok=True)
        (out / case.file).write_text(text, encoding="utf-8")
    if stored is None:
        say(f"NEW     {case.drafter}: no stored plan: written to {out / case.file}, compare and commit it")
        return "new"
    if text == path.read_text(encoding="utf-8"):
        say(f"equal   {case.drafter}")
        return "equal"
    say(f"DIFFERS {case.drafter}: the new plan is {out / case.file}")
    before, after = path.read_text(encoding="utf-8").splitlines(), text.splitlines()
    for line in list(difflib.unified_diff(before, after, "stored", "now", lineterm="", n=1))[:SHOWN_LINES]:
        say(f"        {line}")
    return "differs"


def say(line: str) -> None:
    """Print a line in which nothing from a repository acts."""
    sys.stdout.write(printable(line) + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Run all cases; returns the exit code."""
    parser = argparse.ArgumentParser(description="Hold the plans of published drafters against the stored ones.")
    parser.add_argument("--list", type=Path, default=HERE / "repositories.toml")
    parser.add_argument("--plans", type=Path, default=HERE / "plans")
    parser.add_argument("--out", type=Path, default=Path("build/field"))
    parser.add_argument("--only", nargs="*", default=None, metavar="ORG/NAME")
    given = parser.parse_args(arguments)
    chosen = [case for case in cases(given.list) if given.only is None or case.drafter in given.only]
    results = [check(case, given.plans, given.out) for case in chosen]
    counts = {name: results.count(name) for name in ("equal", "differs", "new", "failed")}
    say(", ".join(f"{count} {name}" for name, count in counts.items()))
    if counts["differs"]:
        return 1
    return 2 if counts["new"] or counts["failed"] or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
