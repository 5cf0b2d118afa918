"""Find the interpreter of the engine the user means, without starting anything."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from spectool.errors import EngineMissingError
from spectool.resources import expanded

VARIABLE = "SPECTOOL_ENGINE"
_HINT = (
    "Name the engine's interpreter with --engine-python PATH or SPECTOOL_ENGINE=PATH "
    "(for example /opt/vllm/bin/python), or put its `vllm` command on PATH."
)
# What a script may have in front of its interpreter is short; a binary is not read further.
_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Candidate:
    """An interpreter that should have vLLM, and how it was found."""

    python: Path
    source: str


def locate(engine_python: str | None, environ: Mapping[str, str] | None = None) -> Candidate:
    """Return the engine's interpreter.

    The first that is given wins: the option, `SPECTOOL_ENGINE`, the interpreter of the `vllm` script on PATH, this
    interpreter if vLLM is installed beside spectool. What was named explicitly is never replaced by a guess.

    Raises:
        EngineMissingError: nothing was found, or what was named is no interpreter.

    """
    env = os.environ if environ is None else environ
    if engine_python:
        return Candidate(_interpreter(engine_python, "--engine-python", env), "--engine-python")
    if env.get(VARIABLE):
        return Candidate(_interpreter(env[VARIABLE], VARIABLE, env), VARIABLE)
    script = shutil.which("vllm", path=env.get("PATH"))
    unreadable = ""
    if script is not None:
        python = script_interpreter(Path(script), env)
        if python is not None:
            return Candidate(python, f"the vllm command {script}")
        unreadable = f"; {script} is on PATH, but it is no Python script whose interpreter exists"
    spec = find_spec("vllm")
    if spec is not None and spec.origin is not None:  # a mere folder called vllm has no origin
        return Candidate(Path(sys.executable), "the interpreter that runs spectool")
    raise EngineMissingError(f"no vLLM engine was found{unreadable}", hint=_HINT)


def script_interpreter(script: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the interpreter in the first lines of an installed command, or None where there is none.

    Installers write three forms: `#!/path/python`, `#!/usr/bin/env python3`, and for long paths a `/bin/sh` script
    whose second line starts the interpreter: `'''exec' "/path with spaces/python" "$0" "$@"`.
    """
    try:
        with script.open("rb") as file:
            lines = file.read(_HEAD_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    if not lines or not lines[0].startswith("#!"):
        return None
    try:
        words = shlex.split(lines[0][2:])
        if words and Path(words[0]).name == "sh" and len(lines) > 1 and lines[1].startswith("'''exec'"):
            words = shlex.split(lines[1].removeprefix("'''exec'"))
        elif words and Path(words[0]).name == "env":
            words = [shutil.which(word, path=environ.get("PATH")) or "" for word in words[1:] if word != "-S"]
    except ValueError:  # unbalanced quotes
        return None
    if not words or not re.match(r"(python|pypy)[\d.]*$", Path(words[0]).name):
        return None
    python = Path(words[0])
    return python if python.is_absolute() and os.access(python, os.X_OK) else None


def _interpreter(named: str, source: str, environ: Mapping[str, str]) -> Path:
    """Check what the user named: an interpreter, the name of one on PATH, or the folder of a virtual environment."""
    path = expanded(named)
    if path.is_dir():
        path = path / "bin" / "python"
    if os.sep not in named:
        found = shutil.which(named, path=environ.get("PATH"))
        path = Path(found) if found else path
    # Not resolved: the interpreter of a virtual environment is a link, and only the link knows its packages.
    path = path.absolute()
    if not path.is_file():
        raise EngineMissingError(f"{source} names {named}, which does not exist", hint=_HINT)
    if not os.access(path, os.X_OK):
        raise EngineMissingError(f"{source} names {named}, which is not executable", hint=_HINT)
    return path
