"""Read the YAML file of `--config` as words of a command line, the way vLLM does (utils/argparse_utils.py).

vLLM reads the file only where `--config` and its name are two words: `--config=FILE` is taken and never opened.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from spectool.checkpoint.small_file import read_small_text
from spectool.errors import UsageError
from spectool.formats.yaml_text import parse_yaml

FLAG = "--config"
_MOST_BYTES = 1 << 20


def with_file(words: Sequence[str], names: Container[str]) -> list[str]:
    """Return the words with those of the file in place of `--config FILE`, first: the command line wins over them.

    Args:
        words: the command line.
        names: every spelling of a flag that vLLM knows.

    Raises:
        SourceError: the file cannot be read.
        UsageError: vLLM would not take it: another ending, two files, or no list of flags.

    """
    name = file_name(words)
    if name is None:
        return list(words)
    at = list(words).index(FLAG)
    return [*file_words(read_file(name), names), *words[:at], *words[at + 2 :]]


def file_name(words: Sequence[str]) -> str | None:
    """Return the file that vLLM would read; None where it reads none.

    Raises:
        UsageError: it is named twice, or not at all.

    """
    count = list(words).count(FLAG)
    if count == 0:
        return None
    at = list(words).index(FLAG)
    if count > 1:
        raise UsageError("--config is given twice, and vLLM takes one file")
    if at + 1 == len(words):
        raise UsageError("--config names no file")
    return words[at + 1]


def read_file(name: str) -> dict[str, Any]:
    """Return the flags of a file, by their names as they stand.

    Raises:
        SourceError: the file cannot be read.
        UsageError: vLLM would not take it.

    """
    # No pipe: spectool would take what vLLM, and spectool itself when it checks the launch, has to read after it.
    if name.rpartition(".")[2] not in ("yaml", "yml"):
        raise UsageError(f"--config {name}: vLLM wants a file that ends in .yaml or .yml")
    found, _ = parse_yaml(read_small_text(Path(name), _MOST_BYTES, what="no --config file is"), name)
    if not isinstance(found, dict):
        raise UsageError(f"--config {name}: vLLM wants flags and their values, as `max-model-len: 4096`")
    return found


def file_words(flags: dict[str, Any], names: Container[str]) -> list[str]:
    """Write the flags of a file as words: true is the bare flag, false the one with `no-` where there is one."""
    words: list[str] = []
    for key, value in flags.items():
        if isinstance(value, bool):
            words += [f"--{key}"] if value else [f"--no-{key}"] if f"--no-{key}" in names else []
        elif isinstance(value, list):
            words += [f"--{key}", *map(str, value)] if value else []
        else:
            words += [f"--{key}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return words


def keys_of(flags: dict[str, Any]) -> dict[str, str]:
    """Return the flags of a file with dashes in their names and values as text: "true", JSON for lists and objects."""
    return {
        key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value) for key, value in flags.items()
    }
