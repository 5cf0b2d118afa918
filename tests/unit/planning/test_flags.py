from __future__ import annotations

from spectool.planning import flags


def test_flags_with_their_values() -> None:
    found = list(flags.given(["--a_b", "1", "--c=x=y", "-tp", "-1", "--off", "--d.e_f", "-", "word"]))
    assert [(flag.name, flag.value) for flag in found] == [
        ("--a-b", "1"),
        ("--c", "x=y"),
        ("-tp", "-1"),
        ("--off", None),
        ("--d.e_f", "-"),
    ]


def test_the_last_value_wins_as_in_argparse() -> None:
    assert flags.value_of(["--port", "1", "--port=2"], "--port") == "2"
    assert flags.value_of(["--ports", "1"], "--port") is None
    assert flags.has(["--head-less"], "--headless") is False
