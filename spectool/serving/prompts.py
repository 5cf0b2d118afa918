"""The prompts of a probe: the package's own, or a file of the user's."""

from __future__ import annotations

import json
from pathlib import Path

from spectool.checkpoint.small_file import read_small_text
from spectool.errors import SourceError
from spectool.resources import package_data

# A prompt file is text to complete, not a data set.
_MAX_BYTES = 16 << 20


def default_prompts() -> list[str]:
    """Return short beginnings of code, prose and mathematics, to be completed (`spectool/data/prompts.json`)."""
    entries = json.loads(package_data("prompts.json").read_text(encoding="utf-8"))["prompts"]
    return [entry["prompt"] for entry in entries]


def read_prompts(path: Path) -> list[str]:
    """Return the prompts in a file: one a line, or JSON lines that are objects with "prompt".

    Empty lines are skipped.

    Raises:
        SourceError: the file cannot be read, is no text, or holds no prompt.

    """
    text = read_small_text(path, _MAX_BYTES, pipes=True, what="give some prompts, not a data set")
    prompts = []
    # Not splitlines: it also splits at characters that may stand inside a prompt.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            prompts.append(_prompt(line.removesuffix("\r"), f"{path}, line {number}"))
    if not prompts:
        raise SourceError(f"{path} holds no prompt")
    return prompts


def _prompt(line: str, where: str) -> str:
    if not line.lstrip().startswith("{"):
        return line
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        # A prompt may begin with a brace, such as code: only an object is an entry.
        if '"prompt"' not in line:
            return line
        raise SourceError(f"{where} is not valid JSON: {error}") from error
    prompt = entry.get("prompt") if isinstance(entry, dict) else None
    if not isinstance(prompt, str) or not prompt:
        raise SourceError(f'{where} has no "prompt" that is text', hint='Each line: {"prompt": "..."}, or plain text.')
    return prompt
