"""Read a deployment file: what `spectool serve FILE` takes instead of options.

deployment = read_deployment("serve.yaml")
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectool.errors import SourceError, UsageError

if TYPE_CHECKING:  # a pydantic model is built only where there is a file
    from spectool.formats.deployment import Deployment

SUFFIXES = (".yaml", ".yml", ".toml", ".json")


def is_deployment(name: str) -> bool:
    """Say whether what a user names is a deployment file and no drafter: a file with the ending of one."""
    return name.endswith(SUFFIXES) and not Path(name).is_dir()


def read_deployment(name: str) -> Deployment:
    """Read and check a deployment file; folders in it are found beside it.

    Raises:
        SourceError: it cannot be read or parsed.
        UsageError: it does not fit the format; the message names every place with its line.

    """
    from spectool.formats.deployment import Deployment  # noqa: PLC0415 - only with a file
    from spectool.schema_check.check import check_files  # noqa: PLC0415 - only with a file
    from spectool.schema_check.detect import read_document  # noqa: PLC0415 - only with a file

    path = Path(name)
    (result,) = check_files([path], kind="deployment")
    if result.status == "unreadable":
        raise SourceError(result.why, hint=result.hint or None)
    if result.status == "passed over":
        raise UsageError(f"{name} is no deployment file: {result.why}")
    if result.findings:
        lines = [f"{name}:{item.line}: {item.message}" for item in result.findings]
        raise UsageError("\n".join(["not a deployment file:", *lines]), hint=result.findings[0].fix)
    content = read_document(path, "deployment").content
    return Deployment.model_validate(_beside(path.parent, content))


def vllm_words(table: Mapping[str, Any]) -> list[str]:
    """Write the table `vllm` as words of a command line, as vLLM reads its own `--config` file.

    true is the bare flag, false `--no-FLAG`, a mapping JSON. A list is several values, or JSON for the flags that want
    it so (`--allowed-origins`), for which vLLM's own file needs it as a text.

    Raises:
        UsageError: a list holds what would be read as a flag.

    """
    words: list[str] = []
    for key, value in table.items():
        if isinstance(value, bool):
            words.append(f"--{key}" if value else f"--no-{key}")
        elif isinstance(value, list) and _wants_json(key):
            words += [f"--{key}", json.dumps(value)]
        elif isinstance(value, list):
            if flag := next((item for item in value if isinstance(item, str) and item.startswith("--")), None):
                raise UsageError(f"vllm.{key}: {flag!r} would be read as a flag of its own")
            words += [f"--{key}", *(item if isinstance(item, str) else json.dumps(item) for item in value)]
        elif isinstance(value, str) and value.startswith("-"):
            words.append(f"--{key}={value}")  # as a word of its own it would be a flag
        else:
            words += [f"--{key}", value if isinstance(value, str) else json.dumps(value)]
    return words


def _wants_json(key: str) -> bool:
    from spectool.planning.parser import table  # noqa: PLC0415 - only with a list

    shape = table().shapes.get(f"--{key.replace('_', '-')}", {})
    return shape.get("takes") == "json" and not shape.get("many")


def _beside(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with folders made absolute: they are meant from where the file stands."""
    found = dict(content)
    for key in ("drafter", "verifier"):
        value = found.get(key)
        if isinstance(value, str) and (folder / value).is_dir():
            found[key] = str((folder / value).resolve())
    return found
