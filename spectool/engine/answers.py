"""Keep what an engine answered, so that asking again costs a `stat` instead of a process.

An answer belongs to one build of one engine on one machine: the interpreter, the variables that decide which vLLM and
which devices it sees, the boot of the machine and its device files. It is valid while the installed engine's RECORD has
the same time and size. Everything about the cache may fail without harm: then the engine is asked.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

# What changes the answer without changing the engine.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTHONHOME",
    "PYTHONPATH",
    "ROCR_VISIBLE_DEVICES",
    "TRITON_INTERPRET",
    "VLLM_TARGET_DEVICE",
    "ZE_AFFINITY_MASK",
)
_FORMAT = 1
_MAX_BYTES = 1 << 20


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_CACHE_HOME/spectool/engines` (the variable counts only when absolute, as its specification says)."""
    base = Path(environ.get("XDG_CACHE_HOME") or "")
    if not base.is_absolute():
        base = Path(environ.get("HOME") or "/nonexistent") / ".cache"
    return base / "spectool" / "engines"


def key_of(python: Path, question: str, environ: Mapping[str, str]) -> str:
    """Return the file name of an answer: everything it depends on but the engine's installed files.

    Args:
        python: the engine's interpreter.
        question: what was asked, the text of the script for example.
        environ: the variables the engine will see.

    """
    parts = [str(_FORMAT), str(python), question, _boot(), *_device_files()]
    with suppress(OSError):
        stat = python.stat()
        parts.append(f"{stat.st_mtime_ns}:{stat.st_size}")
    parts += [f"{name}={environ[name]}" for name in _VARIABLES if name in environ]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def load(folder: Path, key: str) -> dict[str, Any] | None:
    """Return a stored answer, or None if there is none, it cannot be read, or the engine was installed again."""
    try:
        with (folder / f"{key}.json").open("rb") as file:
            stored = json.loads(file.read(_MAX_BYTES))
        answer, seen = stored["answer"], stored["answer"]["fingerprint"]
        stat = Path(seen["file"]).stat()
        same = (stat.st_mtime_ns, stat.st_size) == (seen["mtime_ns"], seen["size"])
        return answer if same and stored["format"] == _FORMAT and isinstance(answer, dict) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def store(folder: Path, key: str, answer: Mapping[str, Any]) -> None:
    """Keep an answer that carries the engine's fingerprint; a cache that cannot be written is no error."""
    if not answer.get("fingerprint"):
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"format": _FORMAT, "answer": dict(answer)}, file)
            Path(name).replace(folder / f"{key}.json")
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


def _boot() -> str:
    """Name this boot of this machine: a home folder is often shared between machines with different GPUs."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return platform.node()


def _device_files() -> list[str]:
    """List the GPU device files; containers on one machine see different ones."""
    dev = Path("/dev")
    patterns = ("nvidia[0-9]*", "kfd", "dri/renderD*")
    return sorted(str(path) for pattern in patterns for path in dev.glob(pattern))
