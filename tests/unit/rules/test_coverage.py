"""Every check of the engine has a rule, or a reason why nothing told beforehand decides it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from spectool.rules import families
from spectool.rules.registry import rules

TABLE = tomllib.loads((Path(__file__).parents[2] / "support" / "engine_checks.toml").read_text(encoding="utf-8"))
CHECKS = TABLE["check"]


def test_every_code_exists_and_every_check_has_one_or_a_reason() -> None:
    known = rules()
    for item in CHECKS:
        assert ("rules" in item) != ("why" in item), item["id"]
        assert item["what"], item["id"]
        assert not [code for code in item.get("rules", ()) if code not in known], item["id"]


def test_ids_are_unique() -> None:
    assert len({item["id"] for item in CHECKS}) == len(CHECKS) > 90


def test_every_launch_rule_answers_a_check() -> None:
    named = {code for item in CHECKS for code in item.get("rules", ())}
    assert {code for code, item in rules().items() if item.scope == "launch"} <= named


def test_a_family_that_is_imported_for_its_scope_has_no_other_rule() -> None:
    """`validate` would not run it: families of one scope are imported only where that scope runs."""
    scopes = {f"spectool.rules.{name}": scope for scope, names in families.OF_SCOPE.items() for name in names}
    found = {item.code: (item.scope, scopes.get(item.check.__module__, item.scope)) for item in rules().values()}
    assert {code for code, (own, expected) in found.items() if own != expected} == set()
