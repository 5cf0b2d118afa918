"""Fixtures for all tests."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from environments import why_no_engine
from hypothesis import settings

# No test asks the real Hub; those with a loopback Hub turn this off for themselves. Before huggingface_hub is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

# No test asserts a time, and a busy machine is no failure.
settings.register_profile("spectool", deadline=None)
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
