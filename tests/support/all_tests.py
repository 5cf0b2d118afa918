"""Run all tests, as many parts at a time as there are cores (two at most): the engine uses one core a process.

    python tests/support/all_tests.py [PYTEST_ARGS ...]

Each part is a pytest process of its own with a log in `build/tests`; a part's log is printed whole when it ends. With
arguments this is plain pytest in one process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "tests"
# The long ones first, so that no core is idle at the end.
LONGEST = (
    "tests/engine/test_agreement.py",
    "tests/engine/test_serve.py",
    "tests/engine/test_conversion.py",
    "tests/engine/test_dialects.py",
    "tests/engine/test_carriers.py",
    "tests/unit",
    "tests/property",
    "tests/packaging",
)


@dataclass(frozen=True)
class Part:
    """A file or folder of tests and how its run ended."""

    name: str
    code: int
    seconds: float
    log: Path = field(repr=False)


def parts() -> list[str]:
    """Folders of tests; files, where each asks the engine. All of them, whatever is added."""
    found = []
    for folder in sorted(path for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py"))):
        name = folder.relative_to(ROOT).as_posix()
        asks = name == "tests/engine" and os.environ.get("SPECTOOL_TEST_ENGINE")
        found += [f"{name}/{file.name}" for file in sorted(folder.glob("test_*.py"))] if asks else [name]
    return sorted(found, key=lambda name: (LONGEST.index(name) if name in LONGEST else len(LONGEST), name))


def run(name: str) -> Part:
    """Run one part."""
    log = LOGS / f"{name.removeprefix('tests/').removesuffix('.py').replace('/', '-')}.log"
    began = time.monotonic()
    with log.open("w") as output:
        # Its own cache folder: processes beside each other would overwrite one another's.
        command = [sys.executable, "-m", "pytest", name, "-o", f"cache_dir=build/tests/cache/{log.stem}"]
        code = subprocess.call(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    return Part(name, code, time.monotonic() - began, log)


def main(arguments: list[str]) -> int:
    """Return pytest's exit code, or the first one that is not 0."""
    # A shell that starts us in the background lets us ignore this signal; the tests send it to servers of theirs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments:
        return subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
    LOGS.mkdir(parents=True, exist_ok=True)
    names = parts()
    sys.stdout.write(f"{len(names)} parts, logs in {LOGS.relative_to(ROOT)}\n")
    ended: list[Part] = []
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for future in as_completed([pool.submit(run, name) for name in names]):
            part = future.result()
            ended.append(part)
            sys.stdout.write(part.log.read_text(errors="replace"))
            sys.stdout.write(f"[{len(ended)} of {len(names)}] {part.name}: {part.seconds:.0f} s\n")
            sys.stdout.flush()
    failed = [part for part in ended if part.code != 0]
    for part in failed:
        sys.stdout.write(f"failed: {part.name} (exit code {part.code})\n")
    return failed[0].code if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
