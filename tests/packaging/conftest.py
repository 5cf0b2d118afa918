"""Distributions of this checkout, and fresh environments to install them into."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from clean_run import run, unpack


@dataclass(frozen=True)
class Distributions:
    sdist: Path
    unpacked: Path  # the sdist's content
    wheel: Path  # built from the checkout
    wheel_from_sdist: Path
    editable: Path  # the wheel pip builds for `pip install -e`


@pytest.fixture(scope="session")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    folder = tmp_path_factory.mktemp("built")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir")
    run(*build, folder / "sdist", "--sdist", root, cwd=folder)
    sdist = only(folder / "sdist", "*.tar.gz")
    unpack(sdist, folder / "unpacked")
    unpacked = only(folder / "unpacked", "spectool-*")
    run(*build, folder / "wheel", "--wheel", root, cwd=folder)
    run(*build, folder / "again", "--wheel", unpacked, cwd=folder)
    (folder / "editable").mkdir()
    hook = f"from hatchling.build import build_editable; build_editable({str(folder / 'editable')!r})"
    run(sys.executable, "-c", hook, cwd=root)
    return Distributions(
        sdist,
        unpacked,
        only(folder / "wheel", "*.whl"),
        only(folder / "again", "*.whl"),
        only(folder / "editable", "*.whl"),
    )


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture
def install(tmp_path: Path) -> Callable[[Path], Path]:
    """Install a wheel into a fresh environment and return its interpreter.

    The dependencies are lent by the environment the tests run in, through a .pth file. Where spectool comes
    from stays the same: .pth files in a folder that a .pth file added are not read, so an editable spectool there is
    out of sight.
    """

    def fresh(wheel: Path) -> Path:
        folder = tmp_path / "fresh"
        run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=tmp_path)
        python = folder / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", python, "install")
        run(*pip, "--no-deps", "--no-index", "--disable-pip-version-check", wheel, cwd=tmp_path)
        own = only(folder, "lib/python*/site-packages")
        (own / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        return python

    return fresh
