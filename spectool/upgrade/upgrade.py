"""Plan the repairs of one config.json, prove that they keep its meaning, and write them."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spectool import __version__
from spectool.checkpoint.folder import CONFIG_NAME, MAX_JSON_BYTES, open_checkpoint
from spectool.checkpoint.json_text import parse_json
from spectool.checkpoint.small_file import read_small_text
from spectool.dialects.view import View
from spectool.engine.facts import EngineFacts, engine_facts
from spectool.errors import OutputError, RefusedError, SourceError
from spectool.formats.speculators.fields import MOST
from spectool.inspection import context_of
from spectool.rules.context import Context
from spectool.rules.registry import Finding, run_rules
from spectool.schema_check.promise import can_be_promised, promised
from spectool.upgrade.edit import edit_json
from spectool.upgrade.repairs import Repair, repairs_for

RECORD = "spectool-upgrades.json"


@dataclass(frozen=True)
class Upgrade:
    """What would be, or was, repaired. `remaining` are findings that no certain repair answers."""

    path: Path
    before: str
    after: str
    repairs: tuple[Repair, ...]
    remaining: tuple[Finding, ...]

    def diff(self) -> str:
        """Return a unified diff that `patch` takes, empty when nothing changes."""
        before, after = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        lines = difflib.unified_diff(before, after, str(self.path), f"{self.path} (upgraded)")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def plan_upgrade(
    target: Path, *, settings: Mapping[str, Any] | None = None, verifier: str | None = None, engine: str | None = None
) -> Upgrade:
    """Plan the upgrade of a Speculators config.

    Args:
        target: a drafter folder, or its config.json alone (a repository of configs without weights).
        settings: the user's answers, as `--set`.
        verifier: the verifier's folder, for rules that need it.
        engine: the vLLM release to speak of.

    Raises:
        SourceError: the file cannot be read, or is no Speculators config.
        RefusedError: a repair would change what the trainer meant; nothing is planned then.

    """
    path = target / CONFIG_NAME if target.is_dir() else target
    before = read_small_text(path, MAX_JSON_BYTES, what="no configuration is")
    facts, answers = engine_facts(engine), dict(settings or {})
    context = _context(path, before, answers, verifier, facts)
    repairs = tuple(repairs_for(context, answers))
    after = edit_json(before, [edit for repair in repairs for edit in repair.edits])
    repaired = _context(path, after, answers, verifier, facts)
    kept = replace(repaired.drafter, speculative_tokens=context.drafter.speculative_tokens)
    if kept != context.drafter:
        raise RefusedError(f"{path}: the repairs would change what the trainer meant; nothing was done")
    findings, _ = run_rules(repaired)
    return Upgrade(path, before, after, repairs, tuple(findings))


def write_upgrade(upgrade: Upgrade) -> None:
    """Replace the file, whole or not at all, and add to the record beside it.

    Raises:
        OutputError: the file cannot be written, or changed since the plan.

    """
    if not upgrade.repairs:
        return
    record = upgrade.path.with_name(RECORD)
    try:
        if read_small_text(upgrade.path, MAX_JSON_BYTES) != upgrade.before:
            raise OutputError(f"{upgrade.path} changed meanwhile", hint="Run the upgrade again.")
        entries, new = _recorded(record), entry(upgrade)
        if entries[-1:] != [new]:  # it is there already where an earlier run was killed between the two files
            _replace(record, json.dumps([*entries, new], indent=2, ensure_ascii=False) + "\n")
        _replace(upgrade.path, upgrade.after)
    except OSError as error:
        raise OutputError(f"{upgrade.path}: cannot be written: {error.strerror or error}") from None


def entry(upgrade: Upgrade) -> dict[str, Any]:
    """Return what the record says of one upgrade: no time, no path."""
    return {
        "tool": {"name": "spectool", "version": __version__},
        "before_sha256": hashlib.sha256(upgrade.before.encode()).hexdigest(),
        "after_sha256": hashlib.sha256(upgrade.after.encode()).hexdigest(),
        "repairs": [
            {"code": repair.code, "why": repair.why, "keys": [".".join(map(str, edit.path)) for edit in repair.edits]}
            for repair in upgrade.repairs
        ],
    }


def _recorded(path: Path) -> list[Any]:
    if not path.exists():
        return []
    try:
        entries = parse_json(read_small_text(path, MAX_JSON_BYTES), str(path))
    except SourceError:
        entries = None
    if not isinstance(entries, list):
        raise OutputError(f"{path} is no record of upgrades", hint="Move it away; it will not be overwritten.")
    return entries


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.spectool-partial")
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    try:
        with partial.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            partial.chmod(mode)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _context(path: Path, text: str, answers: Mapping[str, Any], verifier: str | None, facts: EngineFacts) -> Context:
    config = parse_json(text, str(path))
    if not isinstance(config, dict) or "speculators_model_type" not in config:
        raise SourceError(f"{path} is no Speculators config", hint="`spectool convert` makes one from other layouts.")
    if path.name == CONFIG_NAME and any(path.parent.glob("*.safetensors")):
        checkpoint = open_checkpoint(path.parent)
        view = View(path.parent.resolve().name, config, checkpoint.tensors, checkpoint.read, checkpoint.side_files)
        return context_of(view, checkpoint, verifier=verifier, settings=answers, facts=facts)
    if not can_be_promised(config):
        raise SourceError(
            f"{path}: transformer_layer_config names no layers, or a size beyond {MOST}",
            hint="`spectool schema check` says what is missing.",
        )
    return promised(config, answers, facts)
