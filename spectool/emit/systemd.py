"""A systemd unit: systemd.service(5), systemd.unit(5)."""

from __future__ import annotations

import re
import shutil

from spectool.emit.launch import Launch
from spectool.emit.shell import one_machine

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "$": "$$", "%": "%%"}


def unit(launch: Launch) -> str:
    """Return a unit. Its secrets stand in `/etc/NAME/secrets.env`, which root alone can read.

    Raises:
        UsageError: several machines.

    """
    one_machine(launch, "systemd")
    program = launch.argv[0]
    # systemd wants an absolute program; env finds one that is elsewhere on PATH.
    words = launch.argv if program.startswith("/") else [shutil.which("env") or "/usr/bin/env", *launch.argv]
    env = launch.own_environment()
    lines = [f"# {line}" for line in launch.comments()]
    lines += [
        "[Unit]",
        f"Description=vLLM: {_specifiers(launch.name)} with a speculative drafter",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        "Type=exec",
        *(f"Environment={_quoted(f'{name}={value}', dollars=False)}" for name, value in env.items()),
    ]
    if launch.secrets:
        lines.append(f"# {', '.join(launch.secrets)}: one NAME=VALUE a line; chmod 600.")
        lines.append(f"EnvironmentFile=/etc/{launch.name}/secrets.env")
    lines += [
        "ExecStart=" + " \\\n  ".join(" ".join(map(_quoted, group)) for group in _groups(words)),
        # vLLM ends with 0 also when its engine died.
        "Restart=always",
        "RestartSec=10",
        "KillMode=mixed",
        "KillSignal=SIGTERM",
        f"TimeoutStopSec={launch.stop_seconds}",
        "LimitNOFILE=65536",
        "LimitMEMLOCK=infinity",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _groups(words: list[str]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            groups.append([])
        groups[-1].append(word)
    return groups


def _quoted(word: str, *, dollars: bool = True) -> str:
    """Quote a word of a command line; outside of one a dollar is just that."""
    text = "".join(_escaped(char) if char != "$" or dollars else char for char in word)
    return text if word and re.fullmatch(r"[\w@%+=:,./$-]+", text) else f'"{text}"'


def _escaped(char: str) -> str:
    """Return a sign as systemd reads it back; control signs by their number."""
    return _ESCAPES.get(char, char if char.isprintable() or ord(char) > 0x7F else f"\\x{ord(char):02x}")


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")
