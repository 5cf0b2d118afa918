"""Run all tests: those that ask vLLM beside the others, since most of their time one core is all they use.

    python tests/support/all_tests.py [PYTEST_ARGS ...]

With arguments this is plain pytest in one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE_TESTS = "tests/engine"


def main(arguments: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest"]
    if arguments or not os.environ.get("SPECTOOL_TEST_ENGINE"):
        return subprocess.call([*pytest, *arguments], cwd=ROOT)
    log = ROOT / "build" / "engine-tests.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as output:
        beside = subprocess.Popen([*pytest, ENGINE_TESTS], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            sys.stdout.write(f"the tests of {ENGINE_TESTS} run beside these, into {log.relative_to(ROOT)}\n")
            sys.stdout.flush()
            code = subprocess.call([*pytest, f"--ignore={ENGINE_TESTS}"], cwd=ROOT)
            sys.stdout.write(f"waiting for the tests of {ENGINE_TESTS}\n")
            sys.stdout.flush()
            engine_code = beside.wait()
        finally:
            if beside.poll() is None:
                beside.terminate()
                beside.wait()
    sys.stdout.write(log.read_text(errors="replace"))
    return code or engine_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
