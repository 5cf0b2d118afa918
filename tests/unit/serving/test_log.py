from __future__ import annotations

import os

from spectool.serving.log import TAIL_LINES, EngineLog, clean


def read(data: bytes, secrets: frozenset[str] = frozenset()) -> tuple[list[str], EngineLog]:
    lines: list[str] = []
    log = EngineLog(lines.append, secrets)
    reading, writing = os.pipe()
    log.follow(reading)
    with os.fdopen(writing, "wb") as file:
        file.write(data)
    log.finish(10.0)
    return lines, log


def test_lines_end_in_three_ways() -> None:
    lines, log = read(b"one\r\ntwo\rthree\n\nlast")
    assert lines == ["one", "two", "three", "", "last"]
    assert log.last_line == "last"


def test_the_last_line_is_one_with_text_and_only_the_end_is_kept() -> None:
    lines, log = read(b"".join(b"line %d\n" % number for number in range(500)) + b"\n \n")
    assert len(lines) == 502
    assert len(log.tail) == TAIL_LINES
    assert log.last_line == "line 499"


def test_an_endless_line_is_cut() -> None:
    lines, _ = read(b"x" * 100_000 + b"\nend\n")
    assert lines[-1] == "end"
    assert max(map(len, lines)) <= 1 << 14


def test_nothing_steers_the_terminal() -> None:
    assert clean("\x1b[31mred\x1b[0m \x1b]0;title\x07plain\x07\x9b bell\ttab \u202e") == "red plain   bell\ttab"
    lines, _ = read("\x1b[2J\xff".encode("latin-1") + b" ok\n")
    assert lines == ["\ufffd ok"]


def test_secrets_never_reach_anyone() -> None:
    lines, log = read(b"ValueError: key sk-secret1 is wrong\n", frozenset({"sk-secret1"}))
    assert lines == ["ValueError: key *** is wrong"]
    assert log.root_cause is not None
    assert log.root_cause.line == "ValueError: key *** is wrong"


def test_a_reader_that_fails_does_not_stop_the_engine() -> None:
    calls: list[str] = []

    def fail(line: str) -> None:
        calls.append(line)
        raise BrokenPipeError

    log = EngineLog(fail)
    reading, writing = os.pipe()
    log.follow(reading)
    with os.fdopen(writing, "wb") as file:
        file.write(b"a\nb\n" * 20_000)  # more than a pipe holds: somebody must read it
    log.finish(10.0)
    assert calls == ["a"]
    assert log.last_line == "b"


def test_errors_from_before_can_be_forgotten() -> None:
    _, log = read(b"ValueError: x\n")
    assert log.root_cause is not None
    log.forget_errors()
    assert log.root_cause is None
