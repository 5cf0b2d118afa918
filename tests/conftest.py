"""Fixtures for all tests."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from environments import why_no_engine
from hypothesis import HealthCheck, settings

# What the caller's shell says to spectool, the terminal and the Hub's client is not what is tested, nor what these kept
# for the caller. Before huggingface_hub is imported.
_THEIRS = {"SPECTOOL_DEBUG", "SPECTOOL_DIALECTS", "SPECTOOL_ENGINE", "FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES"}
for _name in list(os.environ):
    if _name in _THEIRS or _name.startswith(("HF_", "HUGGING")):
        del os.environ[_name]
os.environ["HF_HOME"] = str(Path(tempfile.gettempdir()) / f"spectool-tests-no-hub-{os.getpid()}")  # nobody makes it
# No test asks the real Hub; those with a loopback Hub turn this off for themselves, and reach it without a proxy.
os.environ["HF_HUB_OFFLINE"] = "1"
for _name in ("NO_PROXY", "no_proxy"):
    os.environ[_name] = ",".join(filter(None, (os.environ.get(_name), "127.0.0.1", "localhost")))

# No test asserts a time, and a busy machine is no failure. What a run finds, every run finds: who looks further asks
# for other examples (`--hypothesis-seed=N`) or for more (SPECTOOL_EXAMPLES).
_looks_further = "SPECTOOL_EXAMPLES" in os.environ or any(word.startswith("--hypothesis-seed") for word in sys.argv)
settings.register_profile(
    "spectool", deadline=None, derandomize=not _looks_further, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("spectool")

# Who starts us may let us ignore these (nohup, a script's background job), and what we start would ignore them as well;
# tests send them. A handler is not handed down.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

ROOT = Path(__file__).resolve().parents[1]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note which test runs: `tests/support/all_tests.py` names it should this process crash or hang."""
    if note := os.environ.get("SPECTOOL_TEST_NOTE"):
        Path(note).write_text(nodeid, encoding="utf-8")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def pairs() -> Path:
    """The example verifier and drafters; tests copy what they change."""
    return ROOT / "examples" / "pairs"


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """An interpreter with torch: this one, or the engine's. Without either the test is skipped."""
    chosen = os.environ.get("SPECTOOL_TEST_ENGINE")
    if chosen:
        path = Path(chosen).absolute()
        assert path.is_file(), f"SPECTOOL_TEST_ENGINE={chosen} does not exist"
        return path
    if importlib.util.find_spec("torch") is None:
        pytest.skip(why_no_engine() or "no torch: `make test` has it in the engine's environment")
    return Path(sys.executable)
