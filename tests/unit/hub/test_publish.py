"""Publishing: what is said before is what is sent, in one commit, never without a licence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import Outcome, spectool
from loopback_hub import SIGNATURE, TOKEN, LoopbackHub, loopback

from spectool.errors import OutputError
from spectool.hub.publish import files_of, is_licence, publication, publish

# huggingface_hub 2.4 uploads in a way that its HTTP library calls outdated; it is none of ours.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes:DeprecationWarning")

LICENCE = b"Apache License, Version 2.0\n"


@pytest.fixture
def source(pairs: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "dflash-zlab"
    shutil.copytree(pairs / "dflash-zlab", folder)
    (folder / "LICENSE").write_bytes(LICENCE)
    (folder / "NOTICE.txt").write_bytes(b"made by somebody\n")
    return folder


def convert(source: Path, out: Path, *arguments: str) -> Outcome:
    return spectool("convert", str(source), str(out), "--set", "verifier=org/v", "--to-hub", "org/new", *arguments)


def test_what_is_shown_is_sent(hub: LoopbackHub, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    dry = convert(source, out, "--dry-run", "--private", "--format", "json")
    assert dry.code == 0, dry.err
    assert (hub.requests, out.exists()) == ([], False)
    shown = json.loads(dry.out)["publication"]
    assert (shown["repository"], shown["private"], shown["card"], shown["licences"]) == (
        "org/new",
        True,
        True,
        ["LICENSE"],
    )

    outcome = convert(source, out, "--private")
    assert outcome.code == 0, outcome.err
    assert f"published: {hub.url}/org/new/commit/" in outcome.out
    assert (hub.created[0]["name"], hub.created[0]["organization"]) == ("new", "org")
    assert hub.created[0].get("private") or hub.created[0].get("visibility") == "private"
    assert hub.uploaded == {path.name: path.read_bytes() for path in out.iterdir()}
    assert hub.uploaded["LICENSE"] == LICENCE
    sizes = {item["name"]: item["nbytes"] for item in shown["files"]}
    assert sizes.keys() == hub.uploaded.keys()
    assert all(size in {None, len(hub.uploaded[name])} for name, size in sizes.items())
    assert [name for name, size in sizes.items() if size is None] == ["README.md", "provenance.json"]
    assert TOKEN not in outcome.out + outcome.err


def test_the_dry_run_as_text(hub: LoopbackHub, source: Path, tmp_path: Path) -> None:
    shown = convert(source, tmp_path / "out", "--dry-run").out
    assert "would be sent to org/new (public if it is made now)" in shown
    assert f"LICENSE  {len(LICENCE)} bytes, the licence" in shown
    assert "README.md  made while writing, the model card" in shown
    assert "NOTICE.txt" in shown


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_without_a_licence_nothing_is_published(
    arguments: tuple[str, ...], hub: LoopbackHub, source: Path, tmp_path: Path
) -> None:
    """A notice alone states no licence."""
    (source / "LICENSE").unlink()
    outcome = convert(source, tmp_path / "out", *arguments)
    assert outcome.code == 1
    assert "without a licence" in outcome.err
    assert (hub.requests, (tmp_path / "out").exists()) == ([], False)


def test_a_repositorys_licence_goes_along(hub: LoopbackHub, source: Path, tmp_path: Path) -> None:
    hub.add_folder("org/old", source)
    outcome = spectool(
        "convert", "org/old", str(tmp_path / "out"), "--set", "verifier=org/v", "--to-hub", "org/new", "--quiet"
    )
    assert outcome.code == 0, outcome.err
    assert hub.uploaded["LICENSE"] == LICENCE


@pytest.mark.parametrize("name", ["new", "org/new@main", "../x", "org/new/sub"])
def test_names_that_are_none(name: str, source: Path, tmp_path: Path) -> None:
    outcome = spectool("convert", str(source), str(tmp_path / "o"), "--set", "verifier=org/v", "--to-hub", name)
    assert outcome.code == 2
    assert not (tmp_path / "o").exists()


def test_private_needs_a_repository(source: Path, tmp_path: Path) -> None:
    outcome = spectool("convert", str(source), str(tmp_path / "o"), "--set", "verifier=org/v", "--private")
    assert outcome.code == 2


def test_a_model_is_not_replaced_unasked(hub: LoopbackHub, source: Path, tmp_path: Path) -> None:
    hub.add("org/new", {"config.json": b"{}", "model-00001-of-00002.safetensors": b"x"})
    outcome = convert(source, tmp_path / "out")
    assert outcome.code == 2
    assert "holds a model already" in outcome.err
    assert not (tmp_path / "out").exists()
    outcome = convert(source, tmp_path / "out", "--force")
    assert outcome.code == 0, outcome.err
    assert hub.deleted == ["model-00001-of-00002.safetensors"]


def test_a_repository_without_a_model_is_filled(hub: LoopbackHub, source: Path, tmp_path: Path) -> None:
    hub.add("org/new", {".gitattributes": b"", "README.md": b"soon"})
    assert convert(source, tmp_path / "out").code == 0
    assert hub.deleted == []


def test_without_a_token_nothing_begins(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback(monkeypatch, tmp_path, token=None) as hub:
        outcome = convert(source, tmp_path / "out")
    assert outcome.code == 2
    assert "without a token" in outcome.err
    assert (hub.requests, (tmp_path / "out").exists()) == ([], False)


@pytest.mark.parametrize(
    ("where", "kind"),
    [("/api/repos/create", "403"), ("/preupload/", "403"), ("/info/lfs/", "401"), ("/commit/main", "409")],
)
def test_a_refused_upload(where: str, kind: str, hub: LoopbackHub, source: Path, tmp_path: Path) -> None:
    hub.fault(kind, where)
    outcome = convert(source, tmp_path / "out")
    assert outcome.code == 2
    assert "was not published" in outcome.err
    assert kind in outcome.err
    assert (tmp_path / "out" / "config.json").is_file()
    for secret in (TOKEN, SIGNATURE):
        assert secret not in outcome.err
    assert hub.uploaded == {}


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("LICENSE", True),
        ("licence.txt", True),
        ("COPYING", True),
        ("LICENSE-APACHE", True),
        ("NOTICE", False),
        ("license.json", False),
        ("sublicense", False),
        ("licensed_weights.bin2", False),
    ],
)
def test_which_names_state_a_licence(name: str, states: bool) -> None:
    assert is_licence(name) is states
    assert publication("o/n", [(name, 1), ("LICENSE", 1)]).licences[-1] == "LICENSE"


def test_only_plain_files_are_published(tmp_path: Path) -> None:
    (tmp_path / "LICENSE").write_bytes(LICENCE)
    assert files_of(tmp_path) == (("LICENSE", len(LICENCE)),)
    (tmp_path / "key").symlink_to("/etc/passwd")
    with pytest.raises(OutputError, match="only plain files"):
        files_of(tmp_path)
    with pytest.raises(OutputError, match="only plain files"):
        publish(tmp_path, "org/new")


def test_nothing_private_goes_to_a_public_repository(hub: LoopbackHub, source: Path, tmp_path: Path) -> None:
    hub.add("org/new", {".gitattributes": b""})
    outcome = convert(source, tmp_path / "out", "--private")
    assert outcome.code == 2
    assert "exists and is not private" in outcome.err
    assert (hub.created, hub.uploaded, (tmp_path / "out").exists()) == ([], {}, False)
    hub.repos["org/new"].listing = {"private": True}
    assert convert(source, tmp_path / "out", "--private").code == 0
