"""FLG: does vLLM's own parser take the words of the launch? By the flags of the release, as data."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from spectool.planning.parser import table
from spectool.rules.context import Context
from spectool.rules.registry import Abstain, Hit, rule

_PARSER = "vLLM 0.33 utils/argparse_utils.py"
_DATA = "spectool/data/flags/*.json, read from vLLM's sources"


@rule(
    "FLG001",
    "flag-not-taken",
    scope="launch",
    summary="vLLM's parser does not take a word of the launch.",
    why="It knows no such flag in this release, the beginning fits several, or the word belongs to no flag: vLLM ends "
    "with a usage message before it reads a model.",
    fix="Correct the spelling, or leave the word out.",
    references=(_PARSER, _DATA),
)
def taken(context: Context) -> Iterator[Hit | Abstain]:
    """Reads the words as the release's parser does."""
    yield from _faults(context, "flag")


@rule(
    "FLG002",
    "flag-value",
    scope="launch",
    summary="A flag of the launch has a value that vLLM does not take.",
    why="Its parser or its configuration refuses it at start: no number, none of the choices, out of range, no JSON.",
    fix="Correct the value.",
    references=(_PARSER, "vLLM 0.33 config/*.py: Field(ge=, gt=, le=, lt=)", _DATA),
)
def values(context: Context) -> Iterator[Hit | Abstain]:
    """Looks at every value by what the release takes for its flag."""
    yield from _faults(context, "value")
    known, launch = table(context.facts.version), context.launched
    parser = launch.value("--reasoning-parser")
    ours = not launch.has("--reasoning-parser-plugin") and known.reasoning_parsers
    if parser and ours and parser not in known.reasoning_parsers:
        near = next(iter(get_close_matches(parser, known.reasoning_parsers, 1)), None)
        what = f"--reasoning-parser {parser!r}: {context.facts.title} has none of that name"
        yield Hit(what, f"Did you mean {near}?" if near else None)


def _faults(context: Context, kind: str) -> Iterator[Hit | Abstain]:
    """Yield what the parser refuses; no more than a question where another release's flags stand in."""
    choice, read_by = context.choice, context.launched.flags_of
    asked = choice.asked if choice is not None and choice.stand_in else context.facts.version
    for fault in context.launched.faults:
        if fault.kind != kind:
            continue
        if read_by in (None, asked):
            yield Hit(fault.message, fault.fix)
        else:
            yield Abstain(f"the flags of vLLM {asked}: {fault.message}")


@rule(
    "FLG003",
    "flag-file-not-read",
    scope="launch",
    summary="The launch names a flag file in a way that vLLM does not read.",
    why="vLLM opens the file only where `--config` and its name are two words; else it starts without its flags.",
    fix="Write --config FILE, with a space.",
    references=(f"{_PARSER} parse_args, _pull_args_from_config",),
)
def file_not_read(context: Context) -> Iterator[Hit]:
    """Fires for --config=FILE, and for a shortened --config."""
    given = context.launched.value("--config")
    if given is not None:
        yield Hit(f"--config={given} is taken and never opened")


@rule(
    "FLG004",
    "flag-replaced",
    scope="launch",
    summary="A JSON flag is given whole and key by key: vLLM drops the whole one.",
    why="The keys of `--flag.key` make one object, put behind all other words; of two the last one counts.",
    fix="Write every key in one way.",
    references=(f"{_PARSER} parse_args: Add the dict args back as if they were originally passed as JSON",),
)
def replaced(context: Context) -> Iterator[Hit]:
    """Fires for flags given in both ways."""
    for name in context.launched.replaced:
        yield Hit(f"{name} is replaced by the keys given as {name}.KEY")


@rule(
    "FLG005",
    "flag-twice",
    scope="launch",
    summary="A flag and a key of a JSON flag set the same thing.",
    why="vLLM refuses the two together.",
    fix="Keep one of the two.",
    references=(
        "vLLM 0.32 engine/arg_utils.py: attention_backend and attention_config.backend are mutually exclusive",
    ),
)
def once(context: Context) -> Iterator[Hit]:
    """Fires for both; the sizes of CUDA graphs are rule BUD005's business."""
    launch = context.launched
    given = launch.value("--attention-backend") not in (None, "", "None")
    if given and launch.document("--attention-config").get("backend") is not None:
        yield Hit("--attention-backend beside backend of --attention-config")
