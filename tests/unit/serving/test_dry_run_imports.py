"""A dry run imports what it needs and no more: most of its time is imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import contextlib, io, sys
import typer
its_own = set(sys.modules)  # early releases bring rich along
from spectool.cli.main import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
print(" ".join(set(sys.modules) - its_own))
"""
# Each was seen to cost tens of milliseconds, or drags in what does.
NOT_NEEDED = {
    "httpx",
    "huggingface_hub",
    "jsonschema",
    "requests",
    "rich.console",
    "ssl",
    "yaml",
    "spectool.conversion",
    "spectool.emit",
    "spectool.formats.deployment",
    "spectool.formats.schemas",
    "spectool.schema_check",
    "spectool.serving.client",
    "spectool.serving.serve",
}


def test_a_dry_run_imports_no_more_than_it_needs(pairs: Path, root: Path) -> None:
    argv = ["serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), "--dry-run"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPECTOOL_")}
    done = subprocess.run(
        [sys.executable, "-c", CODE, *argv],
        env=env | {"PATH": "", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    imported = set(done.stdout.split())
    assert "spectool.planning.command" in imported, done.stderr
    assert imported & NOT_NEEDED == set()
