"""Say at the end how many distinct faults were survived, by place."""

from __future__ import annotations

from collections import Counter

import pytest
from unharmed import SURVIVED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not SURVIVED:
        return
    places = Counter(fault.place for fault in SURVIVED)
    terminalreporter.section(f"{len(SURVIVED)} distinct faults survived")
    for place, count in sorted(places.items()):
        terminalreporter.write_line(f"{count:4}  {place}")
