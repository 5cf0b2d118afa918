from __future__ import annotations

import io

import pytest

from spectool.serving import progress as progress_module
from spectool.serving.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_and_no_colour_when_piped() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.waiting("starting", 3.0, "last")  # nothing yet: it spoke a moment ago
        progress.line("a [bold]line[/bold] ERROR 12")
        progress.error("worse")
    assert stream.getvalue() == "a [bold]line[/bold] ERROR 12\nworse\n"


def test_a_sign_of_life_after_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "HEARTBEAT", -1.0)
    stream = io.StringIO()
    Progress(stream).waiting("starting", 16.4, "x" * 300)
    assert stream.getvalue() == "starting, 16 s: " + "x" * 100 + "\n"


def test_quiet_leaves_errors() -> None:
    stream = Terminal()
    with Progress(stream, quiet=True) as progress:
        progress.line("talk")
        progress.waiting("starting", 1.0)
        progress.error("fault")
    assert stream.getvalue() == "fault\n"


def test_a_live_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Progress(stream) as progress:
        progress.waiting("starting", 1.0, "[red]not markup[/red]")
        progress.line("a log line [core.py:1]")
        progress.waiting("starting", 2.0, "two")
    told = stream.getvalue()
    assert "starting, 1 s: [red]not markup[/red]" in told
    assert "a log line [core.py:1]\n" in told
    assert "\x1b[?25h" in told  # the cursor is shown again
