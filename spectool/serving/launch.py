"""Run an engine as a child that never outlives spectool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from spectool.errors import EngineMissingError
from spectool.planning.redact import secret_values
from spectool.serving.log import EngineLog

# Seconds. vLLM 0.32 took one to stop idle; with --shutdown-timeout it finishes requests first, which is added.
STOP_GRACE = 30.0
# Seconds for helpers that tidy up after the engine, such as Python's tracker of shared memory.
_SWEEP_GRACE = 3.0
_POLL = 0.05
_TETHER = Path(__file__).with_name("tether.py")


class EngineProcess:
    """An engine started in its own session, so that a Ctrl-C in the terminal reaches spectool only.

    Use it as a context manager: leaving it stops the engine, whatever happened.

    Args:
        argv: the command, an absolute program first.
        on_line: called for every line it prints, from another thread.
        env: its variables; this process's own by default.
        grace: seconds to stop by itself.

    Raises:
        EngineMissingError: it could not be started.

    """

    def __init__(
        self,
        argv: Sequence[str],
        on_line: Callable[[str], None],
        *,
        env: Mapping[str, str] | None = None,
        grace: float = STOP_GRACE,
    ) -> None:
        variables = dict(os.environ if env is None else env)
        self._grace = grace
        self.log = EngineLog(on_line, secret_values(argv, variables))
        command = list(argv)
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), *argv]
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
            )
        except OSError as error:
            os.close(reading)
            raise EngineMissingError(f"{argv[0]} could not be started: {error.strerror or error}") from error
        finally:
            os.close(writing)
        self.started = time.monotonic()
        self.log.follow(reading)

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""
        return self._process.pid

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def exit_code(self) -> int | None:
        """Return the exit code as a shell shows it (128 + signal), or None while it runs."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    def stop(self) -> int:
        """Stop the engine: SIGTERM to its main process, time to end, then SIGKILL to all; return the exit code.

        The main process alone gets SIGTERM, as from systemd or Kubernetes: it stops its workers in order. Workers that
        got it too would end under its feet.
        """
        try:
            if self._process.poll() is None:
                self._process.terminate()
                self._wait(self._grace)
        finally:
            # Also when a signal raised out of the wait.
            if self._process.poll() is None:
                self.kill()
                self._process.wait()
            self._sweep()
            self.log.finish(_SWEEP_GRACE)
        code = self.exit_code()
        return 0 if code is None else code

    def kill(self) -> None:
        """Kill the engine and everything it started, at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _sweep(self) -> None:
        """Let the rest of the group end, then kill what is left."""
        end = time.monotonic() + _SWEEP_GRACE
        while living_members(self.pid):
            if time.monotonic() > end:
                self.kill()
                return
            time.sleep(_POLL)


def living_members(group: int) -> list[int]:
    """Return the processes of a group that still run.

    Zombies do not count: where process 1 is no init they stay for ever.
    """
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        with suppress(OSError):
            os.killpg(group, 0)
            return [group]
        return []
    members = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # "pid (name, which may hold spaces and brackets) state ppid pgrp ..."
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 2 and int(fields[2]) == group and fields[0] not in (b"Z", b"X"):
            members.append(int(entry.name))
    return members
