"""A loopback Hub for every test here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_hub import LoopbackHub, loopback


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    """A Hub, and a client that talks to it with a token."""
    with loopback(monkeypatch, tmp_path) as running:
        yield running
