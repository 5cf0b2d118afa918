"""Which of a folder's files are weights in PyTorch's own format, and which lie beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from spectool.errors import SourceError

SUFFIXES = (".bin", ".pt", ".pth")
WEIGHTS = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"

# What trainers save beside the weights: states of a run (Trainer, SpecForge, DeepSpec), a mask row (MiMo),
# a vocabulary (NeMo).
_NO_WEIGHTS = re.compile(
    r"(mask_embedding|eagle_meta|training_args|(training|trainer)_state.*|optimizer.*|scheduler.*|scaler.*|rng_state.*"
    r"|random_states.*)\.(bin|pt|pth)"
)


def is_pickle(name: str) -> bool:
    """Whether a file name is one of PyTorch's own format."""
    return name.endswith(SUFFIXES)


def choose(names: Sequence[str]) -> str | None:
    """Return the weight file of a folder, or the index of several; None where there is neither.

    `pytorch_model.bin` is what transformers takes, then its index; another name counts where it is the only one.

    Raises:
        SourceError: there are several files, and no index says which belong together.

    """
    for known in (WEIGHTS, INDEX):
        if known in names:
            return known
    others = [name for name in names if is_pickle(name) and not _NO_WEIGHTS.fullmatch(name)]
    if len(others) > 1:
        raise SourceError(
            f"{len(others)} files could be the weights ({', '.join(others[:3])}), and there is no {INDEX}",
            hint="Leave one of them in the folder, or add the index that belongs to them.",
        )
    return others[0] if others else None
