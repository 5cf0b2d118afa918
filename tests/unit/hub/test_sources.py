"""Sources on the Hub: the same plan and the same bytes as of a folder, and how little moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import spectool
from huggingface_hub import constants
from loopback_hub import SIGNATURE, TOKEN, LoopbackHub, files_of

from spectool.dialects.view import PEEKED_BYTES
from spectool.hub import mirror
from spectool.loading import hub_id, load_drafter

REPOS = ("dflash-zlab", "dspark-deepspec", "peagle-native")


@pytest.mark.parametrize("name", REPOS)
def test_conversion_equals_that_of_a_folder(name: str, hub: LoopbackHub, pairs: Path, tmp_path: Path) -> None:
    drafter = hub.add_folder(f"org/{name}", pairs / name)
    verifier = hub.add_folder("org/verifier", pairs / "verifier")
    answers = ("--set", "speculative_tokens=5") if name == "peagle-native" else ()
    here = ("convert", str(pairs / name), str(tmp_path / "here"), "--verifier", str(pairs / "verifier"), *answers)
    local = spectool(*here, "--set", "verifier=org/verifier")
    remote = spectool("convert", f"org/{name}", str(tmp_path / "there"), "--verifier", "org/verifier", *answers)
    assert (local.code, remote.code, remote.err.count("error")) == (0, 0, 0), remote.err
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    record = json.loads((tmp_path / "there" / "provenance.json").read_text())
    for model, commit in (("source", drafter), ("verifier", verifier)):
        assert record[model]["commit"] == commit
    assert (record["source"]["repository"], record["verifier"]["repository"]) == (f"org/{name}", "org/verifier")


@pytest.mark.parametrize("name", REPOS)
def test_a_plan_moves_no_weight(name: str, hub: LoopbackHub, pairs: Path) -> None:
    hub.add_folder(f"org/{name}", pairs / name)
    hub.add_folder("org/verifier", pairs / "verifier")
    answers = ("--set", "speculative_tokens=5") if name == "peagle-native" else ()
    for command in (("validate",), ("convert", "--dry-run"), ("inspect",), ("serve", "--dry-run")):
        mirror.forget()
        outcome = spectool(*command, f"org/{name}", "--verifier", "org/verifier", *answers)
        assert outcome.code in {0, 1}, outcome.err
        assert name in outcome.out + outcome.err
    # Whether DSpark's Markov head is all zeros (a carrier) only its bytes say: the first few are looked at.
    assert hub.sent["weights"] <= (2 * PEEKED_BYTES if name == "dspark-deepspec" else 0)
    assert hub.sent["header"] > 0


def test_a_second_run_fetches_nothing_twice(hub: LoopbackHub, pairs: Path, tmp_path: Path) -> None:
    commit = hub.add_folder("org/drafter", pairs / "dflash-zlab")
    arguments = ("--set", "verifier=org/v")
    assert spectool("convert", "org/drafter", str(tmp_path / "a"), *arguments).code == 0
    before = len(hub.requests)
    mirror.forget()
    assert spectool("convert", f"org/drafter@{commit}", str(tmp_path / "b"), *arguments).code == 0
    assert len(hub.requests) == before
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_offline_uses_what_is_there(
    hub: LoopbackHub, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add_folder("org/drafter", pairs / "dflash-zlab")
    assert spectool("convert", "org/drafter", str(tmp_path / "a"), "--set", "verifier=org/v").code == 0
    before = len(hub.requests)
    mirror.forget()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert spectool("convert", "org/drafter", str(tmp_path / "b"), "--set", "verifier=org/v").code == 0
    outcome = spectool("inspect", "org/absent", "--format", "json")
    assert (outcome.code, json.loads(outcome.out)["known"]) == (0, [])
    outcome = spectool("validate", "org/absent")
    assert outcome.code == 2
    assert "HF_HUB_OFFLINE" in outcome.err
    assert len(hub.requests) == before


def test_offline_with_half_of_it_says_so(
    hub: LoopbackHub, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add_folder("org/drafter", pairs / "dflash-zlab")
    assert spectool("convert", "org/drafter", "--dry-run", "--set", "verifier=org/v").code == 0
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    mirror.forget()
    outcome = spectool("convert", "org/drafter", str(tmp_path / "b"), "--set", "verifier=org/v")
    assert outcome.code == 2
    assert "not fetched before" in outcome.err
    assert not (tmp_path / "b").exists()


def test_the_hubs_own_cache_is_used(hub: LoopbackHub, pairs: Path, tmp_path: Path) -> None:
    commit = hub.add_folder("org/drafter", pairs / "dflash-zlab")
    root = Path(constants.HF_HUB_CACHE) / "models--org--drafter"
    snapshot = root / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(commit)
    for file in (pairs / "dflash-zlab").iterdir():
        (snapshot / file.name).write_bytes(file.read_bytes())
    assert spectool("convert", "org/drafter", str(tmp_path / "a"), "--set", "verifier=org/v").code == 0
    assert [path for _, path, _, _ in hub.requests] == ["GET /api/models/org/drafter/revision/main"]
    constants.HF_HUB_OFFLINE = True  # the fixture puts it back
    assert spectool("convert", "org/drafter", str(tmp_path / "b"), "--set", "verifier=org/v").code == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_a_revision_is_resolved_once(hub: LoopbackHub, pairs: Path, tmp_path: Path) -> None:
    """The branch moves between plan and copy; what was planned is what is copied."""
    first = hub.add_folder("org/drafter", pairs / "dflash-zlab")
    checkpoint, _ = load_drafter("org/drafter")
    second = hub.add_folder("org/drafter", pairs / "dspark-deepspec")
    again, _ = load_drafter("org/drafter")
    assert checkpoint.origin is not None
    assert again.origin is not None
    assert first != second
    assert (checkpoint.origin.commit, again.origin.commit) == (first, first)
    mirror.forget()
    later, _ = load_drafter("org/drafter")
    assert later.origin is not None
    assert later.origin.commit == second
    pinned, _ = load_drafter(f"org/drafter@{first}")
    assert pinned.config == checkpoint.config != later.config


def test_a_folder_of_that_name_wins(
    hub: LoopbackHub, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "drafter").symlink_to(pairs / "dflash-zlab")
    assert hub_id("org/drafter") is None
    assert load_drafter("org/drafter")[0].origin is None
    assert hub.requests == []


def test_the_token_stays_with_the_hub(hub: LoopbackHub, pairs: Path, tmp_path: Path) -> None:
    hub.add_folder("org/drafter", pairs / "dflash-zlab", access="private")
    assert spectool("convert", "org/drafter", str(tmp_path / "a"), "--set", "verifier=org/v").code == 0
    assert {(server, token) for server, _, _, token in hub.requests} == {("hub", True), ("store", False)}
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert TOKEN.encode() not in kept
    assert SIGNATURE.encode() not in kept


def test_serving_names_the_commit(hub: LoopbackHub, pairs: Path) -> None:
    drafter = hub.add_folder("org/drafter", pairs / "dflash-zlab")
    verifier = hub.add_folder("org/verifier", pairs / "verifier")
    arguments = ("serve", "org/drafter", "--verifier", "org/verifier")
    outcome = spectool(*arguments, "--dry-run", "--format", "json")
    assert outcome.code == 0, outcome.err
    argv = json.loads(outcome.out)["argv"]
    speculative = json.loads(argv[argv.index("--speculative-config") + 1])
    assert (speculative["model"], speculative["revision"]) == ("org/drafter", drafter)
    assert argv[argv.index("org/verifier") + 1 :][:2] == ["--revision", verifier]
    assert argv[argv.index("--served-model-name") + 1] == "org/verifier"
    emitted = spectool(*arguments, "--emit", "sh")
    assert drafter in emitted.out
    assert verifier in emitted.out
    assert "is not pinned" not in emitted.err


@pytest.mark.parametrize("named", ["org/verifier", "org/verifier@main"])
def test_the_users_own_revision_stays(hub: LoopbackHub, pairs: Path, named: str) -> None:
    hub.add_folder("org/verifier", pairs / "verifier")
    arguments = ("serve", str(pairs / "dflash-zlab"), "--verifier", named, "--dry-run", "--format", "json")
    outcome = spectool(*arguments, "--", "--revision", "main")
    assert outcome.code == 0, outcome.err
    argv = json.loads(outcome.out)["argv"]
    assert [argv[at + 1] for at, word in enumerate(argv) if word == "--revision"] == ["main"]
    assert "org/verifier" in argv


def test_a_repository_is_not_repaired_in_place(hub: LoopbackHub, pairs: Path) -> None:
    hub.add_folder("org/drafter", pairs / "dflash-zlab")
    outcome = spectool("validate", "org/drafter", "--fix")
    assert outcome.code == 2
    assert "org/drafter" in outcome.err
