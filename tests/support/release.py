"""Build wheel and sdist twice, hold the two against each other, and list what spectool needs as an SBOM.

    python tests/support/release.py

Leaves them in `dist`. What is built is the last commit, with its time on every file, so that anybody who builds that
commit gets the same bytes. Installs the wheel into a fresh environment; the list is made from that by cyclonedx-bom.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clean_run import unpack

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
SBOM_TOOL = "cyclonedx-bom>=7"


def commit(folder: Path) -> tuple[Path, str]:
    """Put the last commit's files into a folder; return it and the commit's time in seconds."""
    archive = folder / "commit.tar"
    git = ["git", "-C", str(ROOT)]
    subprocess.run([*git, "archive", "--output", str(archive), "HEAD"], check=True)
    seconds = subprocess.run([*git, "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True).stdout
    unpack(archive, folder / "source")
    return folder / "source", seconds.strip()


def build(output: Path) -> dict[str, str]:
    """Build both into a folder; return their digests by name."""
    with tempfile.TemporaryDirectory() as folder:
        source, seconds = commit(Path(folder))
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(source)]
        environment = os.environ | {"SOURCE_DATE_EPOCH": seconds}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(output.iterdir())}


def list_needs(wheel: Path, output: Path) -> None:
    """Install a wheel into a fresh environment and write what it brought along, as CycloneDX JSON."""
    with tempfile.TemporaryDirectory() as folder:
        clean, tool = Path(folder) / "clean", Path(folder) / "tool"
        for place, what in (clean, str(wheel)), (tool, SBOM_TOOL):
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            subprocess.run([str(place / "bin" / "pip"), "install", "--quiet", what], check=True)
        subprocess.run([str(clean / "bin" / "pip"), "uninstall", "--quiet", "--yes", "pip", "setuptools"], check=True)
        command = [str(tool / "bin" / "cyclonedx-py"), "environment", "--output-reproducible"]
        command += ["--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(output), str(clean)]
        subprocess.run(command, check=True)


def main() -> int:
    """Build, compare, list; return the exit code."""
    shutil.rmtree(DIST, ignore_errors=True)
    first = build(DIST)
    with tempfile.TemporaryDirectory() as other:
        second = build(Path(other))
    for name, digest in first.items():
        print(f"{digest}  {name}")
    if first != second:
        print(f"the second build differs: {second}", file=sys.stderr)
        return 1
    print("both builds are the same")
    list_needs(next(DIST.glob("*.whl")), DIST / "spectool.cdx.json")
    print("what spectool needs: dist/spectool.cdx.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
