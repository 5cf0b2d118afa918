"""The model card of an output, told from its record alone. Whatever a source wrote is text here, never markup."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence

from spectool.drafter.model import METHODS, TITLES, Method
from spectool.formats.provenance import Provenance
from spectool.report.plain import printable
from spectool.writers.formats import FORMATS

CARD = "README.md"
_UNCHANGED = {"keep", "rename", "reshape"}
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>$:@^=])")
_EVIDENCE = {
    "engine-equal": "converted and native folder were seen to draft the same in vLLM",
    "producer-code": "the dialect was read from the producer's own exporter or model code",
    "config-quoted": "the dialect was read from published configurations as public readers quote them",
    "inferred": "the dialect is inferred; check the acceptance length before relying on it",
}
_SERVED: dict[str, dict[str, object]] = {
    "peagle": {"method": "eagle3", "parallel_drafting": True},
    "dflash": {"method": "dflash"},
    "dspark": {"method": "dspark"},
}


def card(record: Provenance) -> str:
    """Return README.md: what it is, how vLLM serves it, what was changed from the source, and how that is proved.

    `record.card` is the repository it is written for.
    """
    return "\n".join([*_front(record), "", *_body(record), ""])


def escaped(text: str) -> str:
    """Return text as one line of Markdown that shows it as it stands."""
    line = " ".join(printable(text).split())
    return _MARKUP.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;"))


def code(text: str) -> str:
    """Return text as a code span, in a fence longer than any run of backticks in it."""
    line = " ".join(printable(text).split()) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def _quoted(text: str) -> str:
    """Return text as a YAML scalar in double quotes, which reads JSON's escapes."""
    return json.dumps(printable(text), ensure_ascii=False)


def _front(record: Provenance) -> Iterable[str]:
    yield "---"
    files = [item.name for item in record.files if item.name.lower().startswith(("license", "licence"))]
    if record.licence:
        yield f"license: {_quoted(record.licence)}"
    elif files:
        yield "license: other"
        yield f"license_link: {_quoted(files[0])}"
    bases = [name for name in (record.source.repository, _verifier(record)) if name and _REPOSITORY.fullmatch(name)]
    if bases:
        yield "base_model:"
        yield from (f"- {_quoted(name)}" for name in dict.fromkeys(bases))
    yield "library_name: vllm"
    yield "pipeline_tag: text-generation"
    yield "tags:"
    yield from (f"- {tag}" for tag in ("speculative-decoding", _method(record), record.format, "spectool"))
    yield "---"


def _method(record: Provenance) -> Method:
    return next(name for name in METHODS if name == record.drafter["method"].value)


def _verifier(record: Provenance) -> str:
    return record.verifier.repository or record.verifier.name


def _source(record: Provenance) -> str:
    origin = record.source
    if origin.repository is None:
        return f"{code(origin.name)} (config.json {code((origin.sha256 or '')[:16])})"
    return f"{code(origin.repository)} at commit {code(origin.commit or '')}"


def _body(record: Provenance) -> Iterable[str]:
    title = record.card or record.source.name
    value = {name: item.value for name, item in record.drafter.items()}
    method = TITLES[_method(record)]
    yield f"# {escaped(title)}"
    yield ""
    yield (
        f"A {method} drafter for {code(_verifier(record))}: a small model that proposes "
        f"{escaped(value['speculative_tokens'])} tokens per pass, which the verifier accepts or rejects. "
        f"Output does not depend on it; speed does. Converted from {_source(record)} to the {escaped(record.format)} "
        f"format by spectool {escaped(record.tool.version or '')}."
    )
    yield ""
    yield from _serving(record, value["speculative_tokens"])
    yield "## What was changed"
    yield ""
    yield from _changes(record)
    yield "## What it was read as"
    yield ""
    yield "| field | value | where it stood |"
    yield "|---|---|---|"
    yield from (
        f"| {escaped(name.replace('_', ' '))} | {escaped(item.value)} | {escaped(item.where)} |"
        for name, item in record.drafter.items()
        if item.value not in {"-", "no"}
    )
    yield ""
    yield from _proof(record)


def _serving(record: Provenance, tokens: str) -> Iterable[str]:
    yield "## Serve it"
    yield ""
    if not record.engine:  # whether vLLM reads this format as trained was not asked
        made_for = FORMATS[record.format].for_whom if record.format in FORMATS else record.format
        yield f"Made for {escaped(made_for)}."
        yield ""
        return
    config = dict(_SERVED[_served_as(record)], model=record.card or "THIS_FOLDER")
    config["num_speculative_tokens"] = int(tokens) if tokens.isdigit() else tokens
    # The name of the verifier may be a stranger's; quoting and one line keep it an argument.
    verifier = shlex.quote(" ".join(printable(_verifier(record)).split()))
    command = f"vllm serve {verifier} \\\n  --speculative-config {shlex.quote(json.dumps(config))}"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", command)), default=0))
    yield f"{fence}sh\n{command}\n{fence}"
    yield ""
    version = record.engine.removeprefix("vllm==")
    yield f"By its source, vLLM {escaped(version)} reads this folder as the drafter was trained."
    yield ""


def _served_as(record: Provenance) -> str:
    """Return the method it is served as: that of a carrier is not the drafter's."""
    made = any(item.origin == "zeros" and item.name.startswith("markov_head.") for item in record.tensors)
    return "dspark" if made else _method(record)


def _changes(record: Provenance) -> Iterable[str]:
    others = [item for item in record.tensors if item.origin != "source" or item.operation not in _UNCHANGED]
    kept = len(record.tensors) - len(others)
    lines = [f"{kept} of {len(record.tensors)} tensors hold the source's bytes unchanged."]
    lines += [f"{code(item.name)}: {escaped(item.operation)}" for item in others]
    lines += [f"{code(name)} was dropped: {escaped(item.why)}" for name, item in record.dropped.items()]
    lines += [escaped(note) for note in record.notes]
    yield from _list(lines)
    if record.assumptions or record.answers:
        yield "Assumed, or answered by whoever converted it:"
        yield ""
        told = [f"{escaped(item.field)} = {escaped(item.value)}: {escaped(item.why)}" for item in record.assumptions]
        told += [f"{escaped(key)} = {escaped(str(value))}: answered" for key, value in record.answers.items()]
        yield from _list(told)


def _proof(record: Provenance) -> Iterable[str]:
    yield "## Evidence"
    yield ""
    level = f"{escaped(record.evidence)}, that is: {escaped(_EVIDENCE.get(record.evidence, record.evidence))}"
    yield f"Evidence level of dialect {code(record.dialect.name)}: {level}."
    yield ""
    yield (
        "`provenance.json` names the origin and digest of every tensor and file. "
        "`spectool convert --verify FOLDER` checks them; `spectool convert SOURCE OUT --replay FOLDER` repeats the "
        "conversion and compares every byte."
    )
    carried = [item.name for item in record.files if item.name.lower().startswith(("licen", "notice", "copying"))]
    yield ""
    if record.licence or carried:
        names = f" ({', '.join(code(name) for name in carried)})" if carried else ""
        yield f"The source's licence{' ' + code(record.licence) if record.licence else ''} applies{names}."
    else:
        yield "The source names no licence; ask its publisher before passing it on."


def _list(lines: Sequence[str]) -> Iterable[str]:
    yield from (f"- {line}" for line in lines)
    yield ""
