"""Where a finding stands: the weight file of a tensor, or the line of a key in `config.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from spectool.checkpoint.folder import CONFIG_NAME, INDEX_NAME, Checkpoint
from spectool.dialects.record import Reading
from spectool.formats.faults import Path, spell
from spectool.rules.registry import Finding
from spectool.schema_check.codes import LAYER, key_of
from spectool.schema_check.positions import json_lines

# Rules that are about tensors, whatever keys their message names besides.
_OF_TENSORS = ("TEN", "WGT", "MSK003", "VOC003")
# Code -> fields of the reading whose evidence names the key the file has it under.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "AUX": ("aux_layers",),
    "HED001": ("markov_type",),
    "HED002": ("markov_rank", "markov_type"),
    "HED003": ("confidence", "confidence_with_markov"),
    "HED004": ("markov_rank",),
    "HED005": ("confidence", "confidence_with_markov"),
    "MSK": ("mask_token_id",),
    "SLT001": ("slots",),
    "SLT002": ("speculative_tokens", "block_size"),
    "SLT003": ("slots",),
    "VER002": ("verifier_layers",),
    "VER005": ("verifier",),
    "VOC002": ("draft_vocab_size",),
}
_WORD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


def place(findings: Iterable[Finding], source: Checkpoint, reading: Reading | None) -> list[Finding]:
    """Return the findings with file, line and key filled in. `reading` is None when nothing could be read."""
    found = list(findings)
    if not found:
        return []
    lines = json_lines(source.config_text)
    return [_in_weights(item, source) or _in_config(item, source, reading, lines) for item in found]


def _in_weights(finding: Finding, source: Checkpoint) -> Finding | None:
    """Place a finding about tensors: at the file of the first one it names, or where a missing one would be listed."""
    name = finding.key if finding.key in source.tensors else None
    if name is None and (finding.key is not None or not finding.code.startswith(_OF_TENSORS)):
        return None
    if name is None:
        words = re.findall(r"[\w.-]+", finding.message)
        name = next((word for word in (word.rstrip(".") for word in words) if word in source.tensors), None)
    if name is not None:
        return replace(finding, file=source.tensors[name].file.relative_to(source.root).as_posix(), key=name)
    indexed = len(source.files) > 1
    return replace(finding, file=INDEX_NAME if indexed else next(iter(source.files), CONFIG_NAME))


def _in_config(finding: Finding, source: Checkpoint, reading: Reading | None, lines: Mapping[Path, int]) -> Finding:
    """Place a finding at a key of config.json: the key itself, or the object it is missing from."""
    path = _key(finding, source, reading, lines)
    if path is None:
        return replace(finding, file=CONFIG_NAME)
    at = path
    while at not in lines:
        at = at[:-1]
    return replace(finding, file=CONFIG_NAME, line=lines[at], key=spell(path))


def _key(finding: Finding, source: Checkpoint, reading: Reading | None, lines: Mapping[Path, int]) -> Path | None:
    if finding.key is not None:
        return _named(finding.key, lines)
    if "speculators_model_type" in source.config and (path := key_of(finding.code, finding.message, source.config)):
        return path
    names: list[str] = _WORD.findall(finding.message)
    for field in (*_FIELDS.get(finding.code, ()), *_FIELDS.get(finding.code[:3], ())):
        evidence = reading.evidence.get(field) if reading is not None else None
        names += [evidence.where] if evidence is not None else []
    for name in names:
        if named := _named(name, lines):
            return named
    # A native layout keeps at the top what Speculators nests.
    path = key_of(finding.code, finding.message, {**source.config, LAYER: source.config})
    path = path[1:] if path[:1] == (LAYER,) else path
    return path if path and path in lines else None


def _named(dotted: str, lines: Mapping[Path, int]) -> Path | None:
    """Return the key of the file that a dotted name means: from the top, else the one key whose last part it is."""
    exact: Path = tuple(int(part) if part.isdigit() else part for part in dotted.split("."))
    if exact in lines:
        return exact
    ends = [path for path in lines if path[-len(exact) :] == exact]
    return ends[0] if len(ends) == 1 else None
