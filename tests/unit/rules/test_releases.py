"""What validate says of every fixture of a published layout, in every release: pinned, and each code looked at.

The codes stand in tests/golden/releases.json, per drafter as ranges of releases; `SPECTOOL_UPDATE_GOLDEN=1 pytest`
writes them anew. A `?` before a code: it could not be decided.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from config_files import DATA
from dialect_fixtures import ALL

from spectool.dialects.detect import detect
from spectool.dialects.read import read_drafter
from spectool.dialects.view import View
from spectool.engine.facts import engine_facts, known_versions
from spectool.engine.reading.read import read_engine
from spectool.formats.verifier import VerifierView
from spectool.rules.context import Context
from spectool.rules.registry import run_rules
from spectool.schema_check.check import check_files

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "releases.json"


def said(view: View, verifier: VerifierView, settings: dict[str, object], version: str) -> tuple[str, ...]:
    facts = engine_facts(version)
    reading = read_drafter(view, detect(view), verifier=verifier, settings=settings)
    tokens = reading.drafter.speculative_tokens
    engine = read_engine(view, reading.drafter.method, facts, verifier=verifier, tokens=tokens)
    findings, unknowns = run_rules(Context(view, reading, engine, facts, verifier, None, tokens))
    found = {f"{item.code}{'' if item.severity != 'note' else ' (note)'}" for item in findings}
    return tuple(sorted(found | {f"?{item.code}" for item in unknowns if item.code != "VER004"}))


def ranges(by_release: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Join neighbouring releases that say the same."""
    runs: list[tuple[str, str, tuple[str, ...]]] = []
    for version, codes in by_release.items():
        if runs and runs[-1][2] == codes:
            runs[-1] = (runs[-1][0], version, codes)
        else:
            runs.append((version, version, codes))
    return {f"{first} to {last}": " ".join(codes) or "clean" for first, last, codes in runs}


def table() -> dict[str, dict[str, str]]:
    return {
        name: ranges({version: said(item.view, item.verifier, item.settings, version) for version in known_versions()})
        for name, item in sorted(ALL.items())
    }


def test_what_is_said_of_published_layouts_by_release() -> None:
    found = table()
    if os.environ.get("SPECTOOL_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    pinned = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert {name: found.get(name) for name in pinned} == pinned
    assert set(found) == set(pinned), "a new fixture: write the file anew and look at what is said of it"


@pytest.mark.parametrize("path", sorted((DATA / "good").glob("*/config.json")), ids=lambda path: path.parent.name)
def test_good_configs_are_clean_in_the_newest_release(path: Path) -> None:
    (result,) = check_files([path])
    assert not [item for item in result.findings if item.severity != "note"]
