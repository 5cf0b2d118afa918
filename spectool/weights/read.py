"""Read the weights of a drafter, and of its verifier what the two share. Memory does not grow with either."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.folder import Checkpoint
from spectool.checkpoint.sources import Sources
from spectool.dialects.record import Reading
from spectool.weights.record import Copy, MaskRow, Weights
from spectool.weights.stream import Step, same_bytes, scan

EMBEDDING, HEAD = "embed_tokens.weight", "lm_head.weight"
MASK_FILE = "mask_embedding.pt"
Tensors = Mapping[str, TensorInfo]


def read_weights(
    source: Checkpoint,
    reading: Reading,
    *,
    verifier: Tensors | None,
    tied: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Weights:
    """Read every tensor once, in blocks.

    Args:
        source: the drafter's folder.
        reading: its trainer's reading.
        verifier: the verifier's tensors, where its weights are at hand.
        tied: the verifier's head is its embedding.
        progress: called with bytes done and bytes in all.

    Raises:
        SourceError: a file cannot be read, or changed meanwhile.

    """
    placed = {name: item.source for name, item in reading.placements.placed.items()}
    chosen = {name: info for name, info in source.tensors.items() if name not in reading.placements.dropped}
    pairs = {name: pair for name in (EMBEDDING, HEAD) if (pair := _pair(name, placed, source, verifier, tied=tied))}
    total = sum(info.nbytes for info in chosen.values())
    total += sum(info.nbytes for info, other, _ in pairs.values() if other is not None)
    step = _stepper(total, progress)
    with Sources() as files:
        scans = {}
        for name, info in sorted(chosen.items(), key=lambda item: (str(item[1].file), item[1].start)):
            scans[name] = scan(files.get(info.file), info.start, info.nbytes, info.dtype, step)
        copies = {name: _copy(files, *pair, step) for name, pair in pairs.items()}
        mask = _mask_row(files, source, reading, placed, verifier)
        files.check_unchanged()
    return Weights(scans, mask, copies)


def _stepper(total: int, progress: Callable[[int, int], None] | None) -> Step | None:
    if progress is None:
        return None
    done = 0

    def step(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        progress(done, total)

    return step


def _of_verifier(name: str, tensors: Tensors, *, tied: bool, columns: int) -> TensorInfo | None:
    """Return the verifier's embedding or head, however it nests its language model: the shortest name that fits."""
    wanted = EMBEDDING if tied else name
    found = [
        key
        for key, info in tensors.items()
        if (key == wanted or key.endswith(f".{wanted}")) and len(info.shape) == 2 and info.shape[1] == columns
    ]
    return tensors[min(found, key=lambda key: (len(key), key))] if found else None


def _pair(
    name: str, placed: Mapping[str, str], source: Checkpoint, verifier: Tensors | None, *, tied: bool
) -> tuple[TensorInfo, TensorInfo | None, str | None] | None:
    """Return a tensor of the drafter, the verifier's to hold it against, and what is missing for that."""
    if name not in placed:
        return None
    ours = source.tensors[placed[name]]
    if verifier is None:
        return ours, None, "the verifier's weights (--verifier FOLDER with weights)"
    theirs = _of_verifier(name, verifier, tied=tied, columns=ours.shape[-1] if ours.shape else 0)
    if theirs is None:
        return ours, None, f"a tensor {name} of the verifier with rows of {ours.shape[-1] if ours.shape else 0}"
    if theirs.shape != ours.shape:
        return None  # a reduced or padded vocabulary: never shared, and other rules' business
    return ours, theirs, None


def _copy(files: Sources, ours: TensorInfo, theirs: TensorInfo | None, missing: str | None, step: Step | None) -> Copy:
    if theirs is None:
        return Copy(ours.name, None, ours.nbytes, None, missing)
    equal = theirs.dtype == ours.dtype and same_bytes(
        (files.get(ours.file), ours), (files.get(theirs.file), theirs), step
    )
    return Copy(ours.name, theirs.name, ours.nbytes, equal)


def _mask_row(
    files: Sources, source: Checkpoint, reading: Reading, placed: Mapping[str, str], verifier: Tensors | None
) -> MaskRow | None:
    """Look at the mask token's row. None where there is no such row (rules MSK001, MSK002), or a file replaces it."""
    token, size = reading.drafter.mask_token_id, reading.drafter.dimensions
    if token is None or MASK_FILE in source.side_files:
        return None
    if EMBEDDING in placed:
        info, owner = source.tensors[placed[EMBEDDING]], "drafter"
    elif verifier is None:
        return MaskRow(token, "verifier", None, None, "the verifier's weights (--verifier FOLDER with weights)")
    else:
        found = _of_verifier(EMBEDDING, verifier, tied=False, columns=size.hidden_size)
        if found is None:
            return None  # rule VER004
        info, owner = found, "verifier"
    if len(info.shape) != 2 or not 0 <= token < info.shape[0]:
        return None
    row = info.nbytes // info.shape[0]
    seen = scan(files.get(info.file), info.start + token * row, row, info.dtype)
    return MaskRow(token, "drafter" if owner == "drafter" else "verifier", info.name, seen)
