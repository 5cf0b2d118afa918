"""Prove of dropped tensors, before a byte is written, what their dropping rests on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from spectool.checkpoint.bf16 import map_bf16, scale_table
from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.folder import Checkpoint
from spectool.checkpoint.sources import Sources
from spectool.errors import RefusedError
from spectool.writers.plan import Proof

_PIECE = 2**17


def prove_dropped(
    proofs: Sequence[Proof], source: Checkpoint, verifier: Mapping[str, TensorInfo] | None
) -> dict[str, str]:
    """Return the digests of the dropped tensors by name.

    Raises:
        RefusedError: one does not hold the bytes it has to.
        SourceError: a file cannot be read, or changed meanwhile.

    """
    found = {}
    with Sources() as files:
        for proof in proofs:
            ours = source.tensors[proof.tensor]
            theirs = (verifier or {})[proof.copy_of]
            found[proof.tensor] = _digest(files, ours)
            if ours.nbytes != theirs.nbytes or found[proof.tensor] != _digest(files, theirs, proof.scale):
                times = "" if proof.scale == 1.0 else f" times {proof.scale:g}"
                raise RefusedError(
                    f"{source.root.name}: {proof.tensor} is not the verifier's {proof.copy_of}{times}, and the format "
                    "has no place for it",
                    hint="Is it the right verifier? A trained tensor needs a format that stores it.",
                )
        files.check_unchanged()
    return found


def _digest(files: Sources, tensor: TensorInfo, scale: float = 1.0) -> str:
    """Return the digest of a tensor's bytes, or of its bf16 values times a factor."""
    stream = files.get(tensor.file)
    stream.check_range(tensor.start, tensor.nbytes)
    table = None if scale == 1.0 else scale_table(scale)
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(_PIECE, tensor.nbytes)))
    for done in range(0, tensor.nbytes, _PIECE):
        piece = buffer[: min(_PIECE, tensor.nbytes - done)]
        stream.read_into(piece, tensor.start + done)
        digest.update(piece if table is None else map_bf16(bytes(piece), table))
    return digest.hexdigest()
