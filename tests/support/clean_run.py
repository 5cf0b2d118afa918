"""Run a command as a user of an installation would."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

# Variables that lead Python to this checkout, or to somebody's settings of it.
OURS = {"PYTHONPATH", "PYTHONHOME"}


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without those variables and return its output; both streams are shown when it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def npm_install(root: Path, *packages: str) -> str | None:
    """Install packages of npm into a folder; returns why that could not be done, for a skip."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    # A network that swallows everything must not cost the five minutes a try that npm gives it.
    patience = ("--fetch-retries=1", "--fetch-timeout=60000")
    command = [npm, "install", "--prefix", str(root), "--no-audit", "--no-fund", "--ignore-scripts", *patience]
    try:
        done = subprocess.run([*command, *packages], capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        return f"npm did not install {' '.join(packages)} in five minutes"
    return f"npm could not install {' '.join(packages)}: {done.stderr.strip()[-200:]}" if done.returncode else None


def write_program(path: Path, code: str) -> Path:
    """Write a program that runs Python code, with this interpreter, whose path may be too odd to stand after `#!`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive of our own making; before Python 3.11.4 there is no filter to ask for."""
    with tarfile.open(archive) as files:
        files.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202 - our own
