from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from fake_engine import environment, make_site, runs, wait_for

from spectool.errors import EngineMissingError
from spectool.serving.address import Address, free_port
from spectool.serving.client import Client
from spectool.serving.launch import EngineProcess, living_members
from spectool.serving.progress import Progress
from spectool.serving.ready import Start, explain, wait_ready


class Fake:
    """A fake engine under an EngineProcess, and what it printed."""

    def __init__(self, folder: Path, grace: float = 20.0, **behaviour: Any) -> None:
        self.lines: list[str] = []
        self.address = Address(port=free_port())
        argv = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "m"]
        argv += ["--port", str(self.address.port)]
        env = environment(make_site(folder / "site"), behaviour)
        self.engine = EngineProcess(argv, self.lines.append, env=env, grace=grace)
        self.client = Client(self.address)

    def logged(self, pattern: str) -> str:
        def find() -> re.Match[str] | None:
            return next((match for line in list(self.lines) if (match := re.search(pattern, line))), None)

        match: re.Match[str] = wait_for(find, f"a log line {pattern!r}")
        return match[match.lastindex or 0]


def quiet() -> Progress:
    return Progress(quiet=True)


def test_the_engine_leads_its_own_session_and_its_log_is_read(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    with fake.engine as engine:
        assert wait_ready(engine, fake.client, quiet()) is Start.READY
        assert int(fake.logged(r"fake engine pid (\d+)")) == engine.pid  # exec kept the process
        assert os.getsid(engine.pid) == os.getpgid(engine.pid) == engine.pid != os.getsid(0)
        assert engine.exit_code() is None
    assert engine.exit_code() == 0
    assert any("shutdown triggered" in line for line in fake.lines)
    assert not runs(engine.pid)


def test_an_engine_that_ignores_sigterm_is_killed_after_its_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake(tmp_path, grace=0.3, ignore_sigterm=True)
    given: list[float] = []
    wait = fake.engine._wait

    def once_it_was_told(seconds: float) -> None:
        given.append(seconds)
        fake.logged("SIGTERM ignored")  # on a busy machine that takes longer than the grace
        wait(seconds)

    monkeypatch.setattr(fake.engine, "_wait", once_it_was_told)
    with fake.engine as engine:
        wait_ready(engine, fake.client, quiet())
    assert given == [0.3]
    assert engine.exit_code() == 128 + signal.SIGKILL


def test_children_of_the_engine_do_not_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectool.serving.launch._SWEEP_GRACE", 0.3)
    fake = Fake(tmp_path, child=True)
    with fake.engine as engine:
        child = int(fake.logged(r"child (\d+)"))
        wait_ready(engine, fake.client, quiet())
        assert sorted(living_members(engine.pid)) == sorted([engine.pid, child])
    assert engine.exit_code() == 0  # the engine itself ended in good order
    wait_for(lambda: not runs(child), "the end of the child")


def test_an_exception_stops_the_engine(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    wait_ready(fake.engine, fake.client, quiet())
    with pytest.raises(KeyboardInterrupt), fake.engine:
        raise KeyboardInterrupt
    assert fake.engine.exit_code() == 0
    assert living_members(fake.engine.pid) == []


def test_the_engine_stops_when_spectool_is_killed(tmp_path: Path) -> None:
    script = f"""
        import sys, time
        from spectool.serving.launch import EngineProcess
        argv = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--port", "{free_port()}"]
        with EngineProcess(argv, print):
            time.sleep(600)
    """
    env = environment(make_site(tmp_path / "site")) | {"PYTHONUNBUFFERED": "1"}
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], env=env, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        engine = int(parent.stdout.readline().removeprefix("fake engine pid "))
        assert runs(engine)
        parent.kill()
        wait_for(lambda: not runs(engine), "the end of the engine")


def test_an_early_death_is_told_with_its_root_cause(tmp_path: Path) -> None:
    log = [
        "(Worker pid=7) ERROR 11-29 19:14:25 [multiproc_executor.py:953] ValueError: mask_hidden not found in weights",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]
    fake = Fake(tmp_path, log=log, die=1)
    with fake.engine as engine:
        assert wait_ready(engine, fake.client, quiet()) is Start.ENDED
        assert list(explain(engine, tail=True)) == [
            "root cause: ValueError: mask_hidden not found in weights",
            "  meaning: The P-EAGLE drafter lacks the tensor mask_hidden.",
            "  fix: Convert it again from a complete checkpoint: spectool validate names what is missing.",
            "  before a start: spectool rule MSK003",
        ]
    assert engine.exit_code() == 1


def test_a_death_without_a_known_cause_shows_the_end_of_the_log(tmp_path: Path) -> None:
    fake = Fake(tmp_path, log=[f"line {number}" for number in range(40)], die=3)
    with fake.engine as engine:
        assert wait_ready(engine, fake.client, quiet()) is Start.ENDED
        told = list(explain(engine, tail=True))
        assert list(explain(engine, tail=False)) == []
    assert told[0] == "last lines of the engine's log:"
    assert told[-1] == "  line 39"
    assert len(told) == 16


def test_waiting_can_be_interrupted_or_take_too_long(tmp_path: Path) -> None:
    fake = Fake(tmp_path, delay=600)
    with fake.engine as engine:
        assert wait_ready(engine, fake.client, quiet(), interrupted=lambda: True) is Start.INTERRUPTED
        assert wait_ready(engine, fake.client, quiet(), timeout=0.0) is Start.LATE
    assert engine.exit_code() in (0, 128 + signal.SIGTERM)  # before or after it had its handler


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    lines: list[str] = []
    if sys.platform == "linux":  # the script between them says so
        with EngineProcess([str(tmp_path / "missing")], lines.append) as engine:
            wait_for(lambda: engine.exit_code() is not None, "the end")
        assert engine.exit_code() == 127
        assert lines == [f"cannot run {tmp_path / 'missing'}: No such file or directory"]
    else:
        with pytest.raises(EngineMissingError, match="could not be started"):
            EngineProcess([str(tmp_path / "missing")], lines.append)
