"""Open a folder and read it: as its trainer means it, and as rules look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spectool.checkpoint.as_loaded import loaded_otherwise
from spectool.checkpoint.folder import Checkpoint
from spectool.dialects.catalogue import Dialect, dialect_named
from spectool.dialects.detect import detect
from spectool.dialects.read import read_drafter
from spectool.dialects.record import Reading
from spectool.dialects.side_files import with_side_files
from spectool.dialects.view import View
from spectool.dialects.within import narrowed
from spectool.engine.facts import EngineFacts
from spectool.engine.reading.read import read_engine
from spectool.engine.reading.record import EngineReading
from spectool.errors import RefusedError
from spectool.loading import (
    LoadedVerifier,
    fetch_side_file,
    load_drafter,
    load_verifier,
    recorded_answers,
    tokenizers_agree,
)
from spectool.rules.context import Context

# What only some verbs need is imported when they are called: `validate` has to be quick.
if TYPE_CHECKING:
    from spectool.catalogue.known import Published


@dataclass(frozen=True)
class Inspection:
    """A folder and its trainer's reading."""

    source: Checkpoint
    view: View
    dialect: Dialect
    reading: Reading
    verifier: LoadedVerifier | None
    record_fault: str | None = None
    """Why what the folder's `provenance.json` settles does not count; None where it does, or settles nothing."""

    @property
    def published(self) -> Published:
        """What the catalogue says of this drafter."""
        from spectool.catalogue.known import published  # noqa: PLC0415 - a large table

        origin, loaded = self.source.origin, self.verifier
        return published(
            self.reading.drafter,
            repository=origin.repo if origin is not None else None,
            commit=origin.commit if origin is not None else None,
            verifiers=[name for name in (self.reading.verifier_name, loaded.name if loaded else None) if name],
        )


def inspect(
    source: str,
    *,
    verifier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    dialect: str | None = None,
    prove: bool = False,
    need_side_files: bool = False,
) -> Inspection:
    """Read a drafter folder as its trainer means it, from its config and headers.

    Args:
        source: its folder or repository.
        verifier: its verifier's.
        settings: answers to what it does not say.
        dialect: the layout to take it for.
        prove: hold its weights, read whole, against its `provenance.json` before that settles anything.
        need_side_files: a part of the drafter in PyTorch's own format is an error where there is no torch; it stays
            unread otherwise, which rules name.

    Raises:
        SourceError: the folder or a side file of its dialect cannot be read.
        RefusedError: no dialect fits.

    """
    checkpoint, view = load_drafter(source)
    recorded, fault = recorded_answers(checkpoint, prove=prove)
    loaded = load_verifier(verifier) if verifier else None
    checkpoint, view = narrowed(checkpoint, view, settings or {})
    chosen = dialect_named(dialect) if dialect else _detected(checkpoint, view)
    fetch = partial(fetch_side_file, checkpoint)
    checkpoint, view = with_side_files(checkpoint, view, chosen.file.side, fetch, need=need_side_files)
    answers = {**recorded, **(settings or {})}
    reading = read_drafter(view, chosen, verifier=loaded.view if loaded else None, settings=answers)
    return Inspection(checkpoint, view, chosen, reading, loaded, fault)


def _detected(checkpoint: Checkpoint, view: View) -> Dialect:
    """Find the dialect; where there is none, say where a drafter may lie instead."""
    try:
        return detect(view)
    except RefusedError as error:
        root = checkpoint.root
        folders = sorted(item.parent.name for item in root.glob("*/config.json") if item.is_file())
        if error.code != "CFG001" or not folders:
            raise
        shown = ", ".join(folders[:3])
        hint = (
            f"{error.hint or ''} A drafter in a folder within is named with it: {root}/{folders[0]} (found: {shown})."
        )
        raise RefusedError(error.message, hint=hint.strip(), code=error.code) from None


def gather(found: Inspection, facts: EngineFacts, *, engine: bool = True) -> Context:
    """Gather what rules look at; without `engine`, nothing an engine makes of the folder speaks against it."""
    loaded = found.verifier
    tokens = found.reading.drafter.speculative_tokens
    method = found.reading.drafter.method
    view = loaded.view if loaded else None
    nothing = EngineReading(facts.version, None, ())
    return Context(
        view=found.view,
        reading=found.reading,
        engine=read_engine(found.view, method, facts, verifier=view, tokens=tokens) if engine else nothing,
        facts=facts,
        verifier=view,
        verifier_tensors=loaded.tensors if loaded else None,
        tokens=tokens,
        verifier_config=loaded.opened.config if loaded and loaded.opened else None,
        verifier_whole=loaded is not None and loaded.origin is None,
        loaded_otherwise=loaded_otherwise(found.source) if engine else None,
        verifier_loaded_otherwise=loaded_otherwise(loaded.opened) if engine and loaded and loaded.opened else None,
        record_fault=found.record_fault,
        same_tokenizer=lambda: tokenizers_agree(found.source.root, loaded.root if loaded else None),
    )


def context_of(
    view: View,
    source: Checkpoint,
    *,
    verifier: str | None,
    settings: Mapping[str, Any],
    facts: EngineFacts,
) -> Context:
    """Return what rules look at, for a view of a folder that need not be the folder's own config."""
    loaded = load_verifier(verifier) if verifier else None
    dialect = detect(view)
    reading = read_drafter(view, dialect, verifier=loaded.view if loaded else None, settings=settings)
    return gather(Inspection(source, view, dialect, reading, loaded), facts)
