"""`schemas/` and `converters/` reach the user, whichever way spectool is installed, and nothing else comes along."""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from clean_run import run

KINDS = ("schemas", "converters")
# Run from another folder, in isolated mode: what it finds, it finds through the installation alone.
LIST_DATA = """
import json, sys
from spectool.resources import data_folder

def files(folder, prefix=""):
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from files(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name

import spectool
found = {kind: sorted(files(data_folder(kind))) for kind in ("schemas", "converters")}
print(json.dumps({"from": spectool.__file__, "found": found}))
"""


@pytest.fixture(scope="module")
def in_checkout(root: Path) -> dict[str, list[str]]:
    found = {kind: relative_files(root / kind) for kind in KINDS}
    assert all(found.values()), "a data folder is empty"
    return found


def relative_files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def list_data(python: str | Path, elsewhere: Path, code: str = LIST_DATA) -> tuple[Path, dict[str, list[str]]]:
    answer = json.loads(run(python, "-I", "-c", code, cwd=elsewhere))
    return Path(answer["from"]), answer["found"]


def test_sdist_holds_the_data_and_can_be_tested(built, in_checkout) -> None:
    assert {kind: relative_files(built.unpacked / kind) for kind in KINDS} == in_checkout
    for name in ("Makefile", "LICENSE", "tests/support/environments.py", "tests/engine/lock/engine.txt"):
        assert (built.unpacked / name).is_file(), name


@pytest.mark.parametrize("kind", ["wheel", "wheel_from_sdist"])
def test_wheel_holds_the_data_inside_the_package(kind, built, in_checkout, root) -> None:
    with zipfile.ZipFile(getattr(built, kind)) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    shipped = {
        kind: sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
        for kind, prefix in ((kind, f"spectool/_data/{kind}/") for kind in KINDS)
    }
    assert shipped == in_checkout
    assert {name.partition("/")[0] for name in names} == {"spectool"}  # nothing stray in site-packages
    package = [f"spectool/{name}" for name in relative_files(root / "spectool") if "__pycache__" not in name]
    assert sorted(name for name in names if not name.startswith("spectool/_data/")) == package


@pytest.mark.parametrize("kind", ["wheel", "wheel_from_sdist"])
def test_installed_wheel_finds_the_data(kind, built, install: Callable[[Path], Path], in_checkout, tmp_path) -> None:
    python = install(getattr(built, kind))
    origin, found = list_data(python, tmp_path)
    assert python.parents[1] in origin.parents
    assert found == in_checkout


def test_installed_command_starts(built, install: Callable[[Path], Path], tmp_path) -> None:
    python = install(built.wheel)
    assert "convert" in run(python.with_name("spectool"), "--help", cwd=tmp_path)


def test_editable_install_finds_the_data(built, install: Callable[[Path], Path], in_checkout, root, tmp_path) -> None:
    origin, found = list_data(install(built.editable), tmp_path)
    assert origin == root / "spectool" / "__init__.py"
    assert found == in_checkout


def test_checkout_finds_the_data_from_another_folder(in_checkout, root, tmp_path) -> None:
    code = f"import sys; sys.path.insert(0, {str(root)!r})\n{LIST_DATA}"
    assert list_data(sys.executable, tmp_path, code) == (root / "spectool" / "__init__.py", in_checkout)


def test_checkout_holds_no_copy_of_the_data(root) -> None:
    # It would shadow the real folders, and go stale unseen.
    assert not (root / "spectool" / "_data").exists()


def test_data_folders_are_never_imported(root) -> None:
    # An editable install puts the checkout on sys.path, so such an import would work here and fail everywhere else.
    imported = {
        (path.relative_to(root).as_posix(), name)
        for path in (root / "spectool").rglob("*.py")
        for name in top_level_imports(ast.parse(path.read_text(encoding="utf-8")))
    }
    banned = {"schemas", "converters", "tests", "examples", "docs"}
    assert not {(path, name) for path, name in imported if name in banned}
    assert not list((root / "schemas").rglob("*.py")) + list((root / "converters").rglob("*.py"))


def top_level_imports(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names
