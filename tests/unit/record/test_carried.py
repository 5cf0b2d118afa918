"""Which files go along with an output, and what is read off a README."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations import PAIRS, folder, nothing

from spectool.checkpoint.folder import Checkpoint, open_checkpoint
from spectool.errors import SourceError
from spectool.record.carried import carried_files, licence_named


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return folder(PAIRS / "dflash-zlab", tmp_path / "models--a--b" / "snapshots" / ("0" * 40), nothing)


def opened(root: Path) -> Checkpoint:
    return open_checkpoint(root)


@pytest.mark.parametrize(
    "name",
    [
        "LICENSE",
        "license.txt",
        "LICENCE.md",
        "LICENSE-2.0",
        "NOTICE",
        "Notice.md",
        "COPYING",
        "USE_POLICY.md",
        "THIRD_PARTY_NOTICES.txt",
        "licenses.txt",
    ],
)
def test_these_go_along(name: str, root: Path) -> None:
    (root / name).write_text("text")
    assert carried_files(opened(root)) == {name: root / name}


@pytest.mark.parametrize(
    "name",
    [
        "license.py",
        "LICENSE.json",
        "unlicensed.txt",
        "notice.safetensors.txt.bin",
        "README.md",
        "licensee",
        "dflash.py",
    ],
)
def test_these_do_not(name: str, root: Path) -> None:
    (root / name).write_text("text")
    assert carried_files(opened(root)) == {}


def test_a_link_into_the_hubs_cache_goes_along(root: Path) -> None:
    blob = root.parents[1] / "blobs" / "abc"
    blob.parent.mkdir()
    blob.write_text("text")
    (root / "LICENSE").symlink_to("../../blobs/abc")
    assert list(carried_files(opened(root))) == ["LICENSE"]


@pytest.mark.parametrize("where", ["secret", "../../secret", "../secret"])
def test_a_link_to_elsewhere_is_an_error(where: str, root: Path, tmp_path: Path) -> None:
    target = tmp_path / "secret" if where == "secret" else (root / where)
    target.write_text("key")
    (root / "LICENSE").symlink_to(target if where == "secret" else where)
    with pytest.raises(SourceError, match="leaves the folder"):
        carried_files(opened(root))


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("---\nlicense: apache-2.0\n---\n", "apache-2.0"),
        ("---\r\ntags: []\r\nlicense: 'mit'  # yes\r\n---\r\n", "mit"),
        ('---\nlicense: "gpl-3.0"\n---', "gpl-3.0"),
        ("---\nlicense:\n- mit\n---\n", ""),
        ("---\nlicense: <script>\n---\n", ""),
        ("---\nx:\n  license: mit\n---\n", ""),
        ("license: mit\n", ""),
        ("---\nlicense: mit\n", ""),
        ("# card\n---\nlicense: mit\n---\n", ""),
        ("", ""),
    ],
)
def test_the_licence_of_a_readme(text: str, licence: str, root: Path) -> None:
    (root / "README.md").write_bytes(text.encode())
    assert licence_named(opened(root)) == licence
