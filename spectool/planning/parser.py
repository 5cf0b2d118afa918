"""Read a command line as vLLM's own parser does: every spelling of a flag becomes its long name, what fails is named.

By the flags of a release (`spectool/data/flags/X.json`, from its source). vLLM takes underscores for dashes, any
unambiguous beginning, `-O3`, and `--flag.key value` for a key inside a JSON flag (vllm/utils/argparse_utils.py); the
rest is Python's argparse. Of a flag given twice the last one counts, of `--x` and `--no-x` as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from spectool.planning.parsing_values import human, value_faults
from spectool.resources import package_data

_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")  # argparse's own, to tell -1 from a flag
_LEVEL = "--optimization-level"
_PAIRS = (("--enable-", "--disable-"), ("--disable-", "--enable-"))


@dataclass(frozen=True, slots=True)
class Fault:
    """What vLLM refuses of a word. `kind`: the flag itself, or its value."""

    kind: Literal["flag", "value"]
    message: str
    fix: str | None = None


@dataclass(slots=True)
class Parsed:
    """A command line as vLLM reads it: long names, a single value behind `=`.

    `faults` is what it refuses; `replaced` are JSON flags whose value a dotted key (`--flag.key`) put aside.
    """

    words: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """The flags of a release: shapes by long name, and the long name (and whether it is the `no`) of every spelling."""

    version: str
    shapes: Mapping[str, Mapping[str, Any]]
    names: Mapping[str, tuple[str, bool]]
    classes: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """What JSON flags hold, by class and key."""
    attention_backends: tuple[str, ...]
    quantisation: tuple[str, ...]
    kv_connectors: tuple[str, ...]
    reasoning_parsers: tuple[str, ...]


def known_tables() -> tuple[str, ...]:
    """Return the releases whose flags are known, oldest first."""
    names = (entry.name.removesuffix(".json") for entry in package_data("flags").iterdir())
    return tuple(sorted(names, key=lambda name: tuple(map(int, name.split(".")))))


@cache
def table(version: str | None = None) -> Table:
    """Return the flags of a release; of the newest one where none is named, or where a release has no file."""
    known = known_tables()
    chosen = version if version in known else known[-1]
    document = json.loads(package_data("flags", f"{chosen}.json").read_text(encoding="utf-8"))
    shapes = {"--help": {"also": ["-h"], "takes": "switch"}, **document["flags"]}
    names: dict[str, tuple[str, bool]] = {}
    for name, shape in shapes.items():
        for spelling in (name, *shape.get("also", ())):
            names[spelling] = (name, False)
            if shape["takes"] == "yes-no" and spelling.startswith("--"):
                opposites = [f"--no-{spelling[2:]}"]
                if document["disable"]:
                    opposites += [f"{no}{spelling[len(yes) :]}" for yes, no in _PAIRS if spelling.startswith(yes)]
                names |= dict.fromkeys(opposites, (name, True))
    return Table(
        chosen,
        shapes,
        names,
        document["classes"],
        *(tuple(document[key]) for key in ("attention_backends", "quantisation", "kv_connectors", "reasoning_parsers")),
    )


def parse(words: Sequence[str], known: Table) -> Parsed:
    """Read the words after `vllm serve MODEL`."""
    found = Parsed()
    plain, dotted = _dotted([_dashes(word) for word in _levels(words)], found)
    given: list[tuple[str, list[str]]] = []
    index = 0
    while index < len(plain):
        index = _next(plain, index, known, given, found)
    for name, value in dotted.items():
        own = _named(name, known)
        if isinstance(own, Fault):
            found.faults.append(own)
        else:
            if any(flag == own[0] for flag, _ in given):
                found.replaced.append(own[0])
            text = json.dumps(value)
            faults = value_faults(name, text, known.shapes[own[0]], known.classes)
            found.faults += [Fault("value", said) for said in faults]
            given.append((own[0], [f"{own[0]}={text}"]))
    last = {name: at for at, (name, _) in enumerate(given) if name}
    found.words = [word for at, (name, shown) in enumerate(given) if not name or last[name] == at for word in shown]
    return found


def spelled_out(words: Sequence[str], known: Table) -> list[str]:
    """Write out the flags that are shortened and unambiguous; every other word stays as it is, in its place."""
    found = list(words)
    for at, word in enumerate(words):
        name, equals, value = _dashes(word).partition("=")
        if not name.startswith("--") or "." in name or name in known.names:
            continue
        meant = _named(name, known)
        if not isinstance(meant, Fault):
            long = next(each for each in sorted(known.names) if each.startswith(name))
            found[at] = f"{long}{equals}{value}"
    return found


def _next(plain: list[str], index: int, known: Table, given: list[tuple[str, list[str]]], found: Parsed) -> int:
    """Read the flag at an index with its values; return the index after them."""
    word = plain[index]
    if word == "--" or not _is_flag(word, known):
        found.faults.append(Fault("flag", f"{word!r} belongs to no flag, and vLLM takes no other words"))
        given.append(("", [word]))
        return index + 1
    spelling, equals, value = word.partition("=")
    if not word.startswith("--") and spelling not in known.names and word[:2] in known.names:
        spelling, equals, value = word[:2], "=", word[2:].removeprefix("=")  # -qfp8
    own = _named(spelling, known)
    following = _following(plain, index + 1, known)
    if isinstance(own, Fault):
        found.faults.append(own)
        taken = 1 if not equals and following else 0
        given.append(("", [word, *following[:taken]]))
        return index + 1 + taken
    name, opposite = own
    shape = known.shapes[name]
    values = [value] if equals else following
    if shape["takes"] in ("switch", "yes-no"):
        if equals:
            found.faults.append(Fault("value", f"{spelling} takes no value, and has {value!r}", f"Write {spelling}."))
        given.append((name, [f"--no-{name[2:]}" if opposite else name]))
        return index + 1
    if not equals and not shape.get("many"):
        values = following[:1]
    if not values and not shape.get("maybe"):
        found.faults.append(Fault("value", f"{spelling} has no value"))
    for item in values:
        faults = value_faults(spelling, item, shape, known.classes) + _named_faults(name, spelling, item, known)
        found.faults += [Fault("value", said) for said in faults]
    given.append((name, [f"{name}={values[0]}"] if len(values) == 1 else [name, *values]))
    return index + 1 + (0 if equals else len(values))


def _named_faults(name: str, spelling: str, text: str, known: Table) -> list[str]:
    """Say of values that name a backend or a method whether there is one."""
    if name == "--attention-backend" and text.upper() not in ("", "NONE", "AUTO", *known.attention_backends):
        return [f"{spelling} {text!r}: vLLM {known.version} has no such attention backend"]
    if name == "--quantization" and text not in ("", "None", *known.quantisation) and known.quantisation:
        return [f"{spelling} {text!r}: vLLM {known.version} has no such quantisation"]
    return []


def _named(spelling: str, known: Table) -> tuple[str, bool] | Fault:
    """Return the flag a spelling means, exact or unambiguous, and whether it is its `no`."""
    if spelling in known.names:
        return known.names[spelling]
    long = sorted(name for name in known.names if name.startswith(spelling))
    if len(long) == 1 and len(spelling) > 1 and spelling != "--":
        return known.names[long[0]]
    if long:
        few = ", ".join(long[:4])
        return Fault("flag", f"{spelling} could be {few}{' and more' if len(long) > 4 else ''}", "Write it out.")
    from difflib import get_close_matches  # noqa: PLC0415 - only with a fault

    near = next(iter(get_close_matches(spelling, known.names, 1, 0.75)), None)
    return Fault("flag", f"vLLM {known.version} has no flag {spelling}", f"Did you mean {near}?" if near else None)


def _is_flag(word: str, known: Table) -> bool:
    if not word.startswith("-") or len(word) == 1 or word == "--":
        return False
    if word in known.names or word.partition("=")[0] in known.names:
        return True
    return not _NUMBER.match(word) and " " not in word


def _following(plain: list[str], start: int, known: Table) -> list[str]:
    """Return the words from an index up to the next flag."""
    stop = start
    while stop < len(plain) and plain[stop] != "--" and not _is_flag(plain[stop], known):
        stop += 1
    return plain[start:stop]


def _dashes(word: str) -> str:
    """Write dashes for underscores in a long flag, up to its first dot."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    head, dot, rest = name.partition(".")
    return head.replace("_", "-") + dot + rest + equals + value


def _levels(words: Sequence[str]) -> list[str]:
    """Write -O3, -O=3 and -O 3 as the flag they stand for."""
    found: list[str] = []
    for at, word in enumerate(words):
        if word.startswith("-O") and word != "-O":
            found += [_LEVEL, word[3:] if word[2] == "=" else word[2:]]
        elif word == "-O" and at + 1 < len(words) and words[at + 1] in ("0", "1", "2", "3"):
            found.append(_LEVEL)
        else:
            found.append(word)
    return found


def _dotted(words: list[str], found: Parsed) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Split off `--flag.key value`; all keys of a flag make one object, and it replaces a JSON value of that flag."""
    plain: list[str] = []
    objects: dict[str, dict[str, Any]] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        name, equals, text = word.partition("=")
        if not word.startswith("-") or "." not in name or " " in name or _NUMBER.match(name):
            plain.append(word)
            continue
        if not equals:
            if at == len(words):
                found.faults.append(Fault("value", f"{name} has no value"))
                continue
            text, at = words[at], at + 1
        value: Any = text.split(",") if name.endswith("+") else scalar(text)
        flag, *keys = name.removesuffix("+").split(".")
        _merge(objects.setdefault(flag, {}), keys, value)
    return plain, objects


def _merge(target: dict[str, Any], keys: list[str], value: Any) -> None:
    *parents, last = keys
    for parent in parents:
        child = target.get(parent)
        if not isinstance(child, dict):
            child = target[parent] = {}
        target = child
    before = target.get(last)
    if isinstance(value, list) and isinstance(before, list):
        target[last] = before + value
    elif isinstance(value, dict) and isinstance(before, dict):
        target[last] = before | value
    else:
        target[last] = value


def scalar(text: str) -> Any:
    """Read a value behind a dotted key as vLLM does: JSON, a number such as 8k, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        number = human(text)
        return text if number is None else number
