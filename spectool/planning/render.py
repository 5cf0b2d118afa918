"""Show a command: shell text to paste, or JSON for programs. Secrets never appear."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from spectool.planning.command import Flag
from spectool.planning.redact import is_secret_name, redact_argv


def as_shell(parts: Sequence[Flag], env: Mapping[str, str] | None = None) -> str:
    """Return the command quoted for a shell: the program, then one flag a line, joined by backslashes."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in _shown(env or {}).items()]
    program = redact_argv(parts[0].argv)
    lines = [shlex.join(program)] if not variables else [" ".join([*variables, shlex.join(program)])]
    for part in parts[1:]:
        lines += [shlex.join(group) for group in _by_flag(redact_argv(part.argv))]
    return " \\\n  ".join(lines)


def as_json(parts: Sequence[Flag], env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return `{"argv": [...], "env": {...}, "flags": [{"flag", "reason", "source"}]}`; `source` where one is known."""
    return {
        "argv": redact_argv([word for part in parts for word in part.argv]),
        "env": _shown(env or {}),
        "flags": [
            {"flag": shlex.join(redact_argv(part.argv)), "reason": part.reason}
            | ({"source": part.source} if part.source else {})
            for part in parts
        ],
    }


def reasons(parts: Sequence[Flag]) -> list[str]:
    """Return one line per part: what it begins with and why it is there."""
    return [
        f"{redact_argv(part.argv)[0]}: {part.reason}" + (f" [{part.source}]" if part.source else "") for part in parts
    ]


def _by_flag(words: Sequence[str]) -> list[list[str]]:
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not groups:
            groups.append([word])
        else:
            groups[-1].append(word)
    return groups


def _shown(env: Mapping[str, str]) -> dict[str, str]:
    return {name: "***" if is_secret_name(name) else value for name, value in env.items()}
