"""Everything here asks the real vLLM, through the interpreter in SPECTOOL_TEST_ENGINE (`make test` sets it)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from environments import why_no_engine

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def engine_python() -> Path:
    """The engine's interpreter; without one the test is skipped. One that does not exist is an error, never a skip."""
    chosen = os.environ.get("SPECTOOL_TEST_ENGINE")
    if not chosen:
        # `make test` leaves it unset only where the engine cannot be had; a failed installation ends `make test`.
        pytest.skip(why_no_engine() or "SPECTOOL_TEST_ENGINE is not set: `make test` sets it, or name an interpreter")
    path = Path(chosen).absolute()
    assert path.is_file(), f"SPECTOOL_TEST_ENGINE={chosen} does not exist"
    return path
