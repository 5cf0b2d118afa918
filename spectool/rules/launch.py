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

from spectool.errors import UsageError
from spectool.formats.lookup import is_int
from spectool.planning import flags
from spectool.planning.flag_file import with_file
from spectool.planning.lax import read_lax
from spectool.planning.own import Own, own_flags
from spectool.planning.parser import Fault, parse, scalar, table

if TYPE_CHECKING:
    from spectool.planning.gpus import Gpus
    from spectool.planning.models import Model

# vLLM 0.33 utils/argparse_utils.py and engine/arg_utils.py: three flags that stand for keys of the configuration.
_KEYS = {"--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens"}
_SPECULATIVE = "--speculative-config"
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True)
class Launch:
    """A launch. `speculative` are the keys the user's words set, as vLLM reads them; empty where they set none.

    Attributes:
        words: the flags by their long names, as vLLM reads them (`spectool.planning.parser`), without command, model
            and variables.
        own: the figures among them that planning knows.
        speculative: keys of the speculative configuration.
        doubled: keys of it that two flags set, which vLLM refuses.
        environment: the variables before the command.
        gpus: what it will run on; None where that was not said.
        triton: whether the engine has Triton; None where no engine was asked.
        model: the verifier, for sizes; None where only its name is known.
        faults: what vLLM's parser refuses of the words.
        replaced: JSON flags whose value a dotted key of the same flag put aside.
        flags_of: the release whose flags the words were read by.

    """

    words: tuple[str, ...]
    own: Own
    speculative: Mapping[str, Any]
    doubled: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    gpus: Gpus | None = None
    triton: bool | None = None
    model: Model | None = None
    faults: tuple[Fault, ...] = ()
    replaced: tuple[str, ...] = ()
    flags_of: str | None = None

    def has(self, *names: str) -> bool:
        """Say whether a flag was given under any of its names; `--no-X` is another flag than `--X`."""
        return not self.own.names.isdisjoint(names) or flags.has(self.words, *names)

    def value(self, *names: str) -> str | None:
        """Return the last value given for a flag, None where it was not given or has none."""
        return flags.value_of(self.words, *names)

    def values(self, name: str) -> list[str]:
        """Return all values of a flag that takes several; empty where it was not given."""
        found: list[str] = []
        for index, word in enumerate(self.words):
            flag, equals, value = word.partition("=")
            if flag == name:
                rest = self.words[index + 1 :]
                stop = next((at for at, text in enumerate(rest) if text.startswith("--")), len(rest))
                found = [value] if equals else list(rest[:stop])
        return found

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
    version: str | None = None,
) -> Launch:
    """Read what a user wrote after `--`, by the flags of a vLLM release: the newest known one where none is named.

    Raises:
        UsageError: a figure is none, or a JSON flag holds no JSON object.
        SourceError: the file of `--config` cannot be read.

    """
    environment, rest = _command(words)
    known = table(version)
    parsed = parse(with_file(rest, known.names), known)
    speculative, doubled, plain = _speculative(parsed.words)
    return Launch(
        words=tuple(plain),
        own=own_flags(plain, version=known.version),
        speculative=speculative,
        doubled=doubled,
        environment=environment,
        gpus=gpus,
        triton=triton,
        model=model,
        faults=tuple(parsed.faults),
        replaced=tuple(parsed.replaced),
        flags_of=known.version,
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


def _speculative(words: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...], list[str]]:
    """Return the keys of the speculative configuration, those set twice, and the other words.

    As vLLM does: flags `--spec-*` are added, and must not set a key again (engine/arg_utils.py,
    create_speculative_config).
    """
    whole: dict[str, Any] = {}
    short: dict[str, Any] = {}
    plain: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if name == _SPECULATIVE and equals:
            whole = _object(value)
        elif name in _KEYS and equals:
            short[_KEYS[name]] = scalar(value)
        elif name != _SPECULATIVE and name not in _KEYS:
            plain.append(word)
    keys = {name.replace("-", "_"): value for name, value in whole.items()}
    return read_lax({**keys, **short}), tuple(sorted(keys.keys() & short.keys())), plain


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError("--speculative-config needs a JSON object, such as '{\"num_speculative_tokens\": 3}'")
    return found
