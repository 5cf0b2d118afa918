"""What a bug report needs to say about the place it happened in: no secret, no home folder, no user's name."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Mapping
from typing import Any

from spectool import __version__
from spectool.engine.ask import find_engine
from spectool.engine.devices import detect
from spectool.engine.facts import engine_facts
from spectool.errors import EngineMissingError
from spectool.planning.redact import MASK, is_secret_name, redact_text
from spectool.resources import expanded

PACKAGES = (
    "huggingface-hub",
    "jsonschema",
    "nvidia-ml-py",
    "pydantic",
    "pyyaml",
    "rich",
    "safetensors",
    "torch",
    "typer",
)
_VARIABLES = re.compile(
    r"(VLLM|SPECTOOL|HF|CUDA|NVIDIA|HIP|ROCR|NCCL|GLOO|TRITON|TORCH|OMP|MASTER|RAY)_\w+"
    r"|PYTHON(PATH|HOME|WARNINGS)|LD_(PRELOAD|LIBRARY_PATH)|VIRTUAL_ENV"
)
_HOMES = re.compile(r"/(?:home|Users)/[^/\s:;,'\"]+")
_LONGEST = 200


def environment(engine_python: str | None = None, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return versions, the engine, the GPUs, and the variables that change anything.

    Args:
        engine_python: the engine's interpreter; found as `serve` finds it where none is given.
        environ: the variables; this process's own by default.

    """
    env = os.environ if environ is None else environ
    devices, source = detect(env)
    return {
        "spectool": __version__,
        "facts": engine_facts(None).version,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "interpreter": without_home(sys.executable, env),
        "system": platform.platform(),
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
        "engine": _engine(engine_python, env),
        "gpus": {"found": [device.name for device in devices], "source": source},
        "variables": {name: _shown(name, env[name], env) for name in sorted(env) if _VARIABLES.fullmatch(name)},
    }


def as_text(found: Mapping[str, Any]) -> str:
    """Return it for people, one fact a line."""
    lines = []
    for key, value in found.items():
        if isinstance(value, Mapping):
            lines.append(f"{key}:" if value else f"{key}: none")
            lines += [f"  {name}: {_words(item)}" for name, item in value.items()]
        else:
            lines.append(f"{key}: {value}")
    return "\n".join(lines) + "\n"


def without_home(text: str, environ: Mapping[str, str]) -> str:
    """Return a text with home folders as `~`."""
    for home in sorted({environ.get("HOME", ""), str(expanded("~"))}, key=len, reverse=True):
        if len(home) > 1:
            text = re.sub(rf"{re.escape(home.rstrip('/'))}(?=[/:;,\s]|$)", "~", text)
    return _HOMES.sub("~", text)


def _engine(engine_python: str | None, env: Mapping[str, str]) -> dict[str, Any]:
    try:
        engine = find_engine(engine_python)
    except EngineMissingError as error:
        return {"found": False, "why": without_home(error.message, env)}
    return {
        "found": True,
        "distribution": engine.distribution,
        "version": engine.version,
        "device": engine.device,
        "devices": list(engine.device_names),
        "triton": engine.has_triton,
        "vllm_command": engine.console_script is not None,
        "interpreter": without_home(str(engine.python), env),
    }


def _shown(name: str, value: str, env: Mapping[str, str]) -> str:
    """Hide secrets: also those that stand inside a value, or have a name that says no more than KEY."""
    if is_secret_name(name) or name.endswith(("_KEY", "_PASS", "_AUTH")):
        return MASK
    return without_home(redact_text(value), env)[:_LONGEST]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
