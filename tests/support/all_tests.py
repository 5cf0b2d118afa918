"""Run all tests, as many parts at a time as there are cores (two at most): the engine uses one core a process.

    python tests/support/all_tests.py [PYTEST_ARGS ...]

Each part is a pytest process of its own with a log in `build/tests`; a part's log is printed when it ends. The last
lines name every test that failed, and where a part crashed or hung. With arguments this is plain pytest in one process.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

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
# Seconds in which a part's log must grow: the engine's longest silence was two minutes on two cores.
SILENCE = 900.0
# Seconds from the word to show where it hangs to the kill.
TO_TELL = 10.0
_POLL = 0.2
# Of a log that is printed: its end. Of the failures that are named: the first, each so long.
MAX_SHOWN = 200_000
MAX_NAMED = 40
MAX_REASON = 300
# Where `tests/conftest.py` notes which test runs.
NOTE = "SPECTOOL_TEST_NOTE"


@dataclass(frozen=True)
class Part:
    """A file or folder of tests and how its run ended."""

    name: str
    code: int
    seconds: float
    log: Path = field(repr=False)
    hung: bool = False
    last: str = ""

    def shown(self) -> str:
        """The log, or its end."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        if len(text) <= MAX_SHOWN:
            return text
        return f"... {len(text) - MAX_SHOWN} characters more in {self.log}\n{text[-MAX_SHOWN:]}"

    def failures(self) -> Iterator[str]:
        """One line for the part, then what pytest's summary calls failed, with its reason."""
        if self.code == 0:
            return
        where = f" in {self.last}" if self.last else ""
        if self.hung:
            yield f"failed: {self.name} (hung{where}: nothing in its log for {SILENCE:.0f} s)"
        elif self.code < 0:
            yield f"failed: {self.name} (ended by signal {-self.code}{where})"
        else:
            yield f"failed: {self.name} (exit code {self.code})"
        text = self.log.read_text(encoding="utf-8", errors="replace")
        summary = text.rpartition("short test summary info")[2] if "short test summary info" in text else ""
        named = re.findall(r"^(?:FAILED|ERROR) .*", summary, re.MULTILINE)
        yield from (f"  {line[:MAX_REASON]}" for line in named[:MAX_NAMED])
        if len(named) > MAX_NAMED:
            yield f"  and {len(named) - MAX_NAMED} more in {self.log}"
        if not named:  # it crashed, hung, or could not begin
            _, stack, frames = text.rpartition("Current thread")  # as faulthandler writes it, innermost first
            lines = frames.splitlines()[1:11] if stack else text.splitlines()[-10:]
            yield from (f"  {line[:MAX_REASON]}" for line in lines)


class Running:
    """The parts that run, each leading a group, so that nothing of them is left behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._ended = False

    def start(self, command: list[str], log: Path, note: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as output, self._lock:
            if self._ended:
                raise KeyboardInterrupt
            environment = os.environ | {NOTE: str(note)}
            child = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, process_group=0
            )
            self._groups.add(child.pid)
        return child

    def kill(self, group: int) -> None:
        """Kill what is left of a part."""
        with self._lock:
            self._groups.discard(group)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill every part; none begins after it."""
        with self._lock:
            self._ended, groups = True, list(self._groups)
        for group in groups:
            self.kill(group)


RUNNING = Running()


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
    stem = name.removeprefix("tests/").removesuffix(".py").replace("/", "-")
    log, note = LOGS / f"{stem}.log", LOGS / f"{stem}.now"
    note.unlink(missing_ok=True)
    began = time.monotonic()
    # Its own cache folder: processes beside each other would overwrite one another's.
    command = [sys.executable, "-m", "pytest", name, "--color=no", "-o", f"cache_dir=build/tests/cache/{stem}"]
    child = RUNNING.start(command, log, note)
    try:
        hung = not _ends(child, log)
    finally:
        RUNNING.kill(child.pid)
        code = child.wait()
    last = note.read_text(encoding="utf-8", errors="replace") if note.exists() else ""
    return Part(name, code or int(hung), time.monotonic() - began, log, hung=hung, last=last)


def _ends(child: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait for a part for as long as its log grows; returns whether it ended by itself."""
    size, grown = -1, time.monotonic()
    while child.poll() is None:
        now = log.stat().st_size
        if now != size:
            size, grown = now, time.monotonic()
        elif time.monotonic() - grown > SILENCE:
            child.send_signal(signal.SIGABRT)  # pytest's faulthandler then writes every stack into the log
            with suppress(subprocess.TimeoutExpired):
                child.wait(TO_TELL)
            return False
        time.sleep(_POLL)
    return True


def _terminated(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: list[str]) -> int:
    """Return pytest's exit code, or the first one that is not 0."""
    if arguments:
        return subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
    LOGS.mkdir(parents=True, exist_ok=True)
    names = parts()
    say(f"{len(names)} parts, logs in {LOGS.relative_to(ROOT)}\n")
    ended: list[Part] = []
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        try:
            for future in as_completed([pool.submit(run, name) for name in names]):
                part = future.result()
                ended.append(part)
                say(f"{part.shown()}[{len(ended)} of {len(names)}] {part.name}: {part.seconds:.0f} s\n")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            RUNNING.kill_all()
            raise
    failed = [part for part in ended if part.code != 0]
    for part in failed:
        for line in part.failures():
            say(f"{line}\n")
    code = failed[0].code if failed else 0
    return code if code >= 0 else 128 - code


def say(text: str) -> None:
    """Print, whatever the terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminated)  # else what it started would run on
    sys.exit(main(sys.argv[1:]))
