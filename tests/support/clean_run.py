"""Run a command as a user of an installation would."""

from __future__ import annotations

import os
import subprocess
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


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive of our own making; before Python 3.11.4 there is no filter to ask for."""
    with tarfile.open(archive) as files:
        files.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202 - our own
