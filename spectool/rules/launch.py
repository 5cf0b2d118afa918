"""The coming launch, as far as its words tell: flags of `vllm serve`, environment, speculative configuration, GPUs.

The words are those a user puts after `--`: the flags alone, or a whole command with variables before it, such as
`VLLM_USE_V2_MODEL_RUNNER=0 vllm serve VERIFIER --tensor-parallel-size 2 --speculative-config '{...}'`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectool.checkpoint.small_file import read_small_text
from spectool.errors import UsageError
from spectool.formats.lookup import is_int
from spectool.planning import flags
from spectool.planning.lax import read_lax
from spectool.planning.own import Own, own_flags

if TYPE_CHECKING:
    from spectool.planning.gpus import Gpus
    from spectool.planning.models import Model

# vLLM 0.33 utils/argparse_utils.py and engine/arg_utils.py: three flags that stand for keys of the configuration.
_KEYS = {"--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens"}
_SPECULATIVE = ("--speculative-config", "-sc")
_MOST_CONFIG_BYTES = 1 << 20
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True)
class Launch:
    """A launch. `speculative` are the keys the user's words set, as vLLM reads them; empty where they set none.

    Attributes:
        words: the flags, without command, model and variables.
        own: the figures among them that planning knows.
        speculative: keys of the speculative configuration.
        doubled: keys of it that two flags set, which vLLM refuses.
        environment: the variables before the command.
        gpus: what it will run on; None where that was not said.
        triton: whether the engine has Triton; None where no engine was asked.
        model: the verifier, for sizes; None where only its name is known.

    """

    words: tuple[str, ...]
    own: Own
    speculative: Mapping[str, Any]
    doubled: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    gpus: Gpus | None = None
    triton: bool | None = None
    model: Model | None = None

    def has(self, *names: str) -> bool:
        """Say whether a flag was given under any of its names; `--no-X` is another flag than `--X`."""
        return not self.own.names.isdisjoint(names) or flags.has(self.words, *names)

    def value(self, *names: str) -> str | None:
        """Return the last value given for a flag, None where it was not given or has none."""
        return flags.value_of(self.words, *names)

    def document(self, *names: str) -> Mapping[str, Any]:
        """Return the JSON object given for a flag; empty where there is none that can be read."""
        try:
            found = json.loads(self.value(*names) or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def ranks(self) -> int:
        """The tensor-parallel size; 1 where none was given, as in vLLM."""
        return self.own.tensor_parallel or 1

    @property
    def stages(self) -> int:
        """The pipeline-parallel size; 1 where none was given."""
        return self.own.pipeline_parallel or 1

    @property
    def tokens(self) -> int | None:
        """K as these words set it, where they set a usable one."""
        given = self.speculative.get("num_speculative_tokens")
        return given if is_int(given) and given > 0 else None

    @property
    def names_drafter(self) -> bool:
        """Whether the speculative configuration is meant to stand alone; else spectool's own is merged into it."""
        return "model" in self.speculative


def read_launch(
    words: Sequence[str],
    *,
    gpus: Gpus | None = None,
    triton: bool | None = None,
    model: Model | None = None,
) -> Launch:
    """Read what a user wrote after `--`.

    Raises:
        UsageError: a figure is none, or a JSON flag holds no JSON object.
        SourceError: the file of `--config` cannot be read.

    """
    environment, rest = _command(words)
    # Flags of a file come first: the command line wins over them.
    file_keys = _config_file(rest)
    speculative, doubled, plain = _speculative([*_words(file_keys), *rest])
    return Launch(
        words=tuple(plain),
        own=own_flags(plain),
        speculative=speculative,
        doubled=doubled,
        environment=environment,
        gpus=gpus,
        triton=triton,
        model=model,
    )


def _command(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split off variables, `vllm serve` (or a path to it) and the model."""
    rest, environment = list(words), {}
    while rest and (match := _VARIABLE.fullmatch(rest[0])):
        environment[match["name"]] = match["value"]
        rest = rest[1:]
    if len(rest) > 1 and Path(rest[0]).name == "vllm" and rest[1] == "serve":
        rest = rest[2:]
    if rest and not rest[0].startswith("-"):
        rest = rest[1:]
    return environment, rest


def _config_file(words: Sequence[str]) -> dict[str, str]:
    name = flags.value_of(words, "--config")
    if name is None:
        return {}
    return flags.top_level(read_small_text(Path(name), _MOST_CONFIG_BYTES, pipes=True, what="no --config file is"))


def _words(keys: Mapping[str, str]) -> list[str]:
    """Write a file's keys as words; a nested block (no value on its line) is passed over."""
    words = []
    for key, value in keys.items():
        if key.startswith(("speculative", "spec-")) and not value:
            continue
        if value.lower() == "false":
            words.append(f"--no-{key}")
        else:
            words += [f"--{key}"] if value.lower() == "true" else [f"--{key}={value}"]
    return words


def _speculative(words: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...], list[str]]:
    """Return the keys of the speculative configuration, those set twice, and the other words.

    As vLLM does: dotted flags are gathered into one object, which replaces the JSON of `--speculative-config`; flags
    `--spec-*` are added, and must not set a key again (engine/arg_utils.py, create_speculative_config).
    """
    whole: dict[str, Any] = {}
    dotted: dict[str, Any] = {}
    short: dict[str, Any] = {}
    plain, done = list(words), 0
    for flag in flags.given(words):
        head, dot, key = flag.name.partition(".")
        if head in _SPECULATIVE and dot:
            _nest(dotted, key, _scalar(flag.value))
        elif head in _SPECULATIVE:
            whole = _object(flag.value)
        elif flag.name in _KEYS:
            short[_KEYS[flag.name]] = _scalar(flag.value)
        else:
            continue
        length = flag.stop - flag.start
        del plain[flag.start - done : flag.stop - done]
        done += length
    keys = {name.replace("-", "_"): value for name, value in (dotted or whole).items()}
    return read_lax({**keys, **short}), tuple(sorted(keys.keys() & short.keys())), plain


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError("--speculative-config needs a JSON object, such as '{\"num_speculative_tokens\": 3}'")
    return found


def _nest(target: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.replace("-", "_").split(".")
    for parent in parents:
        child = target.setdefault(parent, {})
        if not isinstance(child, dict):
            return
        target = child
    target[last] = value


def _scalar(text: str | None) -> Any:
    """Read a value as vLLM does: JSON where it is JSON, else the text."""
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return text
