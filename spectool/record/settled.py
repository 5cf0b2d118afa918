"""What a conversion's record settles about its own output: facts of training that the output's format has no key for.

It counts only while record and folder belong together: another config.json, other weights or an edited record would let
what was true of one drafter pass for another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from spectool.checkpoint.folder import CONFIG_NAME, Checkpoint
from spectool.dialects.sources import SETTINGS
from spectool.errors import SourceError
from spectool.formats.provenance import FILE, OutputFile, Provenance
from spectool.record.load import read_record
from spectool.record.seal import digest_of

_WEIGHTS = ".safetensors"
_PIECE = 2**20


def settled_by_record(checkpoint: Checkpoint, *, prove: bool = False) -> tuple[dict[str, Any], str | None]:
    """Return the answers of the folder's record, as `--set` would give them, and why they do not count, if so.

    Args:
        checkpoint: a folder with a `provenance.json`; without tensors only its config.json is held against the record.
        prove: digest the weights too, which reads them whole. Else their names, sizes and tensors must do.

    """
    try:
        record = read_record(checkpoint.root)
    except SourceError as error:
        return {}, f"{FILE} cannot be read ({error.message.rpartition(f'{FILE}: ')[2]})"
    answers = {key: value for key, value in record.settled.items() if key in SETTINGS}
    fault = next(_faults(checkpoint, record, prove=prove), None)
    if fault is None:
        return answers, None
    return {}, f"{FILE} settles {', '.join(answers)}, but {fault}" if answers else None


def _faults(checkpoint: Checkpoint, record: Provenance, *, prove: bool) -> Iterator[str]:
    digests = {item.name: item.sha256 for item in record.files}
    if digests.get(CONFIG_NAME) != hashlib.sha256(checkpoint.config_text.encode()).hexdigest():
        yield f"{CONFIG_NAME} is not the one it records"
    if record.sha256 != digest_of(record):
        yield "it was edited: its digest is not its own"
    if not checkpoint.tensors:
        return
    if {item.name for item in record.tensors} != set(checkpoint.tensors):
        yield "the weights have other tensors than it records"
    for item in record.files:
        if item.name.endswith(_WEIGHTS):
            yield from _of_file(checkpoint, item, prove=prove)


def _of_file(checkpoint: Checkpoint, item: OutputFile, *, prove: bool) -> Iterator[str]:
    path = checkpoint.root / item.name
    if item.name not in checkpoint.files:
        yield f"{item.name} is not among the weights"
        return
    try:
        size = path.stat().st_size
        if size != item.nbytes:
            yield f"{item.name} has {size} bytes, recorded are {item.nbytes}"
        # Of a repository only what was asked for is here.
        elif prove and checkpoint.origin is None:
            whole = hashlib.sha256()
            with path.open("rb", buffering=0) as stream:
                while piece := stream.read(_PIECE):
                    whole.update(piece)
            if whole.hexdigest() != item.sha256:
                yield f"the bytes of {item.name} are not the recorded ones"
    except OSError as error:
        yield f"{item.name} cannot be read: {error.strerror or error}"
