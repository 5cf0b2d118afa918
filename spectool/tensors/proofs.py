"""Prove of dropped tensors, before a byte is written, what their dropping rests on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from spectool.checkpoint.folder import Checkpoint
from spectool.checkpoint.header import TensorInfo
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
            found[proof.tensor] = _digest(files, ours)
            wanted = proof.sha256
            if proof.copy_of:
                wanted = _digest(files, (verifier or {})[proof.copy_of])
            if found[proof.tensor] != wanted:
                what = f"the verifier's {proof.copy_of}" if proof.copy_of else "what its record says was added"
                raise RefusedError(
                    f"{source.root.name}: {proof.tensor} is not {what}, and the format has no place for it",
                    hint="Is it the right verifier? A trained tensor needs a format that stores it.",
                )
        files.check_unchanged()
    return found


def _digest(files: Sources, tensor: TensorInfo) -> str:
    stream = files.get(tensor.file)
    stream.check_range(tensor.start, tensor.nbytes)
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(_PIECE, tensor.nbytes)))
    for done in range(0, tensor.nbytes, _PIECE):
        piece = buffer[: min(_PIECE, tensor.nbytes - done)]
        stream.read_into(piece, tensor.start + done)
        digest.update(piece)
    return digest.hexdigest()
