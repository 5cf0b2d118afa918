"""Open repositories of the Hub as checkpoints: configs, the index, and headers of shards with a needed tensor."""

from __future__ import annotations

from dataclasses import replace

from spectool.checkpoint import partial, pickle_names
from spectool.checkpoint.folder import (
    CONFIG_NAME,
    INDEX_NAME,
    WEIGHTS_NAME,
    Checkpoint,
    open_checkpoint,
    read_index,
)
from spectool.checkpoint.origin import Origin
from spectool.errors import SourceError
from spectool.hub import cache
from spectool.hub.mirror import Mirror, mirror_of
from spectool.hub.reference import Reference

RECORD = "provenance.json"
_OF_DRAFTERS = ("fc.weight", "model.fc.weight", "mask_hidden")
# What is compared with a drafter's, borrowed from or counted (rules VER003 and VER004, `writers.embedding`).
_OF_VERIFIERS = ("embed_tokens.weight", "lm_head.weight")
MAX_SHARDS = 200
"""Shards of a drafter; the largest verifiers have 160 or so."""


def open_drafter(ref: Reference) -> Checkpoint:
    """Open a drafter: all headers, no weights (but of PyTorch's own format, which has no headers, all of it).

    Raises:
        SourceError: it cannot be read.

    """
    mirror = mirror_of(ref)
    names = mirror.repository.top
    mirror.small(CONFIG_NAME)
    if RECORD in names:
        mirror.small(RECORD)
    _all_weights(mirror)
    return _opened(mirror, open_checkpoint(mirror.root, names=names))


def open_verifier(ref: Reference) -> Checkpoint:
    """Open a verifier: its config, and the headers of the shards that hold its embedding and its head.

    A model in one file has all its tensors; of one in shards, `total_bytes` counts only what was read.

    Raises:
        SourceError: it cannot be read.

    """
    mirror = mirror_of(ref)
    names = mirror.repository.top
    mirror.small(CONFIG_NAME)
    only = None
    if WEIGHTS_NAME in names:
        mirror.weights(WEIGHTS_NAME)
    elif INDEX_NAME in names:
        mirror.small(INDEX_NAME)
        only = sorted({file for name, file in read_index(mirror.root).items() if name.endswith(_OF_VERIFIERS)})
        for file in only:
            mirror.weights(file)
    else:
        names = tuple(name for name in names if not name.endswith(".safetensors"))
    return _opened(mirror, open_checkpoint(mirror.root, need_weights=False, names=names, only=only))


def open_any(ref: Reference) -> Checkpoint:
    """Open what may be a drafter or a verifier.

    Raises:
        SourceError: it cannot be read.

    """
    mirror = mirror_of(ref)
    if WEIGHTS_NAME not in mirror.repository.top and INDEX_NAME in mirror.repository.top:
        mirror.small(INDEX_NAME)
        if not any(name in _OF_DRAFTERS for name in read_index(mirror.root)):
            return open_verifier(ref)
    return open_drafter(ref)


def known(ref: Reference) -> bool:
    """Whether a reference can be opened: there is a network, or something of it was fetched before."""
    return not cache.offline() or (cache.kept(ref) or cache.downloaded(ref)) is not None


def _all_weights(mirror: Mirror) -> None:
    """Make every weight file readable that `open_checkpoint` will choose."""
    names = mirror.repository.top
    if WEIGHTS_NAME in names:
        mirror.weights(WEIGHTS_NAME)
    elif INDEX_NAME in names:
        mirror.small(INDEX_NAME)
        files = sorted(set(read_index(mirror.root).values()))
        if len(files) > MAX_SHARDS:
            raise SourceError(f"{mirror.repository.repo}: {len(files)} weight files; no drafter has so many")
        for file in files:
            mirror.weights(file)
    else:
        found = [name for name in names if name.endswith(".safetensors")]
        if len(found) == 1:
            mirror.weights(found[0])
        elif not found:
            _pickles(mirror)


def _pickles(mirror: Mirror) -> None:
    """Bring weights in PyTorch's own format here, whole: their shapes stand in a pickle at no known place."""
    found = pickle_names.choose(mirror.repository.top)
    files = [] if found is None else [found]
    if found == pickle_names.INDEX:
        mirror.small(found)
        files = sorted(set(read_index(mirror.root, found).values()))
    for file in files:
        path = mirror.weights(file)
        partial.ensure(path, 0, mirror.repository.file(file).size)


def _opened(mirror: Mirror, checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, origin=Origin(mirror.repository.repo, mirror.repository.commit))
