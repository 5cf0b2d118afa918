"""`make field` against the loopback Hub: it never calls an unstored plan confirmed."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from loopback_hub import LoopbackHub

from spectool.hub import mirror
from spectool.hub.reference import is_commit, reference


@pytest.fixture(scope="module")
def field(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("field", root / "tests/field/field.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["field"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(
    field: ModuleType, hub: LoopbackHub, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[], tuple[int, str]]:
    hub.add_folder("org/dflash", pairs / "dflash-zlab")
    hub.add_folder("org/peagle", pairs / "peagle-native")
    hub.add_folder("org/verifier", pairs / "verifier")
    (tmp_path / "list.toml").write_text(
        "".join(
            f'[[repository]]\ndrafter = "org/{name}"\nrevision = "main"\nverifier = "org/verifier"\n'
            for name in ("dflash", "peagle")
        )
    )

    def once() -> tuple[int, str]:
        mirror.forget()
        code = field.main(
            [
                *("--list", str(tmp_path / "list.toml"), "--plans", str(tmp_path / "plans")),
                *("--out", str(tmp_path / "made")),
            ]
        )
        return code, capsys.readouterr().out

    return once


def test_stored_plans_are_compared(
    run: Callable[[], tuple[int, str]], hub: LoopbackHub, pairs: Path, tmp_path: Path
) -> None:
    code, shown = run()
    assert code == 2
    assert f"no stored plan: written to {tmp_path / 'made' / 'org--dflash.json'}, compare and commit it" in shown
    assert shown.endswith("0 equal, 0 differs, 2 new, 0 failed\n")
    assert hub.sent["weights"] == 0
    made = json.loads((tmp_path / "made" / "org--dflash.json").read_text())
    assert (made["inspection"]["dialect"], made["inspection"]["speculative_tokens"]) == ("dflash-zlab", 7)
    assert made["plan"]["config"]["speculators_model_type"] == "dflash"
    question = json.loads((tmp_path / "made" / "org--peagle.json").read_text())["answer"]
    assert question["kind"] == "QuestionError"
    assert "speculative_tokens" in question["message"]

    shutil.copytree(tmp_path / "made", tmp_path / "plans")
    assert run() == (0, "equal   org/dflash\nequal   org/peagle\n2 equal, 0 differs, 0 new, 0 failed\n")

    # The branch moves on; the stored plan's commit is what is compared.
    hub.add_folder("org/dflash", pairs / "dspark-deepspec")
    assert run()[0] == 0

    stored = tmp_path / "plans" / "org--dflash.json"
    stored.write_text(stored.read_text().replace('"speculative_tokens": 7', '"speculative_tokens": 6', 1))
    code, shown = run()
    assert code == 1
    assert "DIFFERS org/dflash" in shown
    assert '"speculative_tokens": 6' in shown

    hub.repos["org/peagle"].access = "forbidden"
    shutil.rmtree(tmp_path / "hf")
    code, shown = run()
    assert code == 1
    assert "FAILED  org/peagle" in shown


def test_the_list(field: ModuleType, root: Path) -> None:
    found = field.cases(root / "tests/field/repositories.toml")
    assert 20 <= len(found) == len({case.drafter for case in found})
    for case in found:
        assert reference(case.drafter) is not None
        assert reference(case.verifier) is not None
        assert is_commit(case.revision) or case.revision == "main"
    assert sum(is_commit(case.revision) for case in found) >= 10
    stored = {path.name for path in (root / "tests/field/plans").glob("*.json")}
    assert stored <= {case.file for case in found}
