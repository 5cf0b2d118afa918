"""`make test` forgets no test, and its last lines name what failed, crashed or hung."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import all_tests
import pytest
from fake_engine import PATIENCE, runs, wait_for

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("engine", ["", "python"])
def test_every_test_file_is_in_exactly_one_part(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTOOL_TEST_ENGINE", engine)
    parts = [ROOT / name for name in all_tests.parts()]
    for file in (ROOT / "tests").rglob("test_*.py"):
        assert sum(file == part or part in file.parents for part in parts) == 1, file


def test_the_long_parts_exist() -> None:
    for name in all_tests.LONGEST:
        assert (ROOT / name).exists(), name


def test_a_failed_part_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("told\n")
    codes = {"a": 0, "b": 1, "c": 0}
    monkeypatch.setattr(all_tests, "LOGS", all_tests.ROOT / "build" / "tests")
    monkeypatch.setattr(all_tests, "parts", lambda: list(codes))
    monkeypatch.setattr(all_tests, "run", lambda name: all_tests.Part(name, codes[name], 0.0, tmp_path / "log"))
    assert all_tests.main([]) == 1
    codes["b"] = 0
    assert all_tests.main([]) == 0


# What notes the running test is the real conftest's.
CONFTEST = f"""
import runpy, sys
sys.path[:0] = {[str(ROOT / "tests" / "support"), str(ROOT / "tests")]!r}
pytest_runtest_logstart = runpy.run_path({str(ROOT / "tests" / "conftest.py")!r})["pytest_runtest_logstart"]
"""
TESTS = {
    "fails": "def test_one(): assert 1 == 2, 'the reason'\ndef test_two(): pass",
    "broken": "import no_such_module",
    "dies": "import os\ndef test_one(): pass\ndef test_dies(): os.kill(os.getpid(), 9)",
    "hangs": "import threading\ndef test_hangs(): threading.Event().wait()",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    for name, text in TESTS.items():
        (tmp_path / "tests" / name).mkdir()
        (tmp_path / "tests" / name / f"test_{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "build" / "tests").mkdir(parents=True)
    monkeypatch.setattr(all_tests, "ROOT", tmp_path)
    monkeypatch.setattr(all_tests, "LOGS", tmp_path / "build" / "tests")
    monkeypatch.delenv("SPECTOOL_TEST_ENGINE", raising=False)
    return tmp_path


def test_the_last_lines_name_what_failed_and_why(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(all_tests, "MAX_SHOWN", 100)
    threading.Thread(target=lose_patience, args=(checkout, monkeypatch), daemon=True).start()
    assert all_tests.main([]) != 0
    out = capsys.readouterr().out
    told = out[out.index("\nfailed: ") + 1 :]
    lines = told.splitlines()
    assert sorted(line for line in lines if line.startswith("failed: ")) == [
        "failed: tests/broken (exit code 2)",
        "failed: tests/dies (ended by signal 9 in tests/dies/test_dies.py::test_dies)",
        "failed: tests/fails (exit code 1)",
        "failed: tests/hangs (hung in tests/hangs/test_hangs.py::test_hangs: nothing in its log for 0 s)",
    ]
    (reason,) = [line for line in lines if "::test_one" in line]
    assert reason.startswith("  FAILED tests/fails/test_fails.py::test_one - AssertionError: the reason")
    assert any(line.startswith("  ERROR tests/broken/test_broken.py") for line in lines)
    assert "in test_hangs" in told  # the stack it hung in
    assert "characters more in" in out
    assert "test_two" not in told


def lose_patience(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for((checkout / "build" / "tests" / "hangs.now").exists, "the test that hangs")
    monkeypatch.setattr(all_tests, "SILENCE", 0.4)


def test_nothing_runs_on_when_it_is_ended(checkout: Path) -> None:
    for name in TESTS.keys() - {"hangs"}:
        shutil.rmtree(checkout / "tests" / name)
    (checkout / "tests" / "support").mkdir()
    driver = checkout / "tests" / "support" / "all_tests.py"
    driver.write_text((ROOT / "tests" / "support" / "all_tests.py").read_text(encoding="utf-8"), encoding="utf-8")
    hangs = checkout / "tests" / "hangs" / "test_hangs.py"
    hangs.write_text(
        "import os, pathlib, threading\n"
        f"def test_hangs(): pathlib.Path({str(checkout / 'pid')!r}).write_text(f'{{os.getpid()}} '); "
        "threading.Event().wait()"
    )
    process = subprocess.Popen([sys.executable, str(driver)], stdout=subprocess.DEVNULL)
    try:
        part = int(wait_for(lambda: (checkout / "pid").exists() and (checkout / "pid").read_text(), "the part"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        wait_for(lambda: not runs(part), "the end of the part")
    finally:
        process.kill()
        process.wait()


def test_signals_that_we_were_started_to_ignore_are_not_ignored_by_what_tests_start() -> None:
    code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    ignoring = f"import runpy, signal, subprocess, sys; sys.path[:0] = {sys.path!r}\n"
    ignoring += "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    start = f"sys.exit(subprocess.call([sys.executable, '-c', {code!r}]))"
    mended = f"{ignoring}runpy.run_path({str(ROOT / 'tests' / 'conftest.py')!r})\n{start}"
    assert [subprocess.call([sys.executable, "-c", text]) for text in (ignoring + start, mended)] == [1, 0]
