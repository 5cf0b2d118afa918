"""Which weight files of a folder vLLM loads, where that is not what transformers and spectool read.

Source: vLLM 0.32 `model_executor/model_loader/weight_utils.py` filter_duplicate_safetensors_files: all that the index
names; without an index every `.safetensors` file of the folder, in the order of their names.
"""

from __future__ import annotations

from dataclasses import dataclass

from spectool.checkpoint.folder import INDEX_NAME, Checkpoint, read_index
from spectool.checkpoint.header import read_header
from spectool.errors import SourceError


@dataclass(frozen=True, slots=True)
class LoadedOtherwise:
    """`message` says what vLLM does instead; `sure` is False where both ways may give the same tensors."""

    message: str
    sure: bool = True


def loaded_otherwise(source: Checkpoint) -> LoadedOtherwise | None:
    """Compare the files that were read with the ones vLLM loads; None where they are the same.

    Of a repository of the Hub, whose index may not be here, nothing is said.
    """
    if not source.files or source.origin is not None:
        return None
    others = [name for name in source.side_files if name.endswith(".safetensors")]
    if not (source.root / INDEX_NAME).is_file():
        return _strays(source, others) if source.files[0].endswith(".safetensors") else None
    if INDEX_NAME not in source.side_files:
        return None  # the index chose the files
    try:
        named = set(read_index(source.root).values())
    except SourceError as error:
        return LoadedOtherwise(f"vLLM goes by the index beside {source.files[0]}: {error.message}")
    if named == set(source.files):
        return None
    gone = sorted(name for name in named if not (source.root / name).is_file())
    if gone:
        return LoadedOtherwise(f"{INDEX_NAME} beside {source.files[0]} names {gone[0]}, which is not there")
    return LoadedOtherwise(f"whether {source.files[0]} holds what the files of {INDEX_NAME} do", sure=False)


def _strays(source: Checkpoint, others: list[str]) -> LoadedOtherwise | None:
    """Look at what lies beside the one file. What it holds a second time counts unless the file itself comes later."""
    for name in others:
        try:
            held = read_header(source.root / name).tensors
        except SourceError as error:
            return LoadedOtherwise(f"there is no {INDEX_NAME}, so vLLM loads {name} too: {error.message}")
        strange = sorted(held.keys() - source.tensors.keys())
        if strange or name > source.files[0]:
            what = strange[0] if strange else f"{next(iter(held), 'nothing')} once more"
            return LoadedOtherwise(f"there is no {INDEX_NAME}, so vLLM loads {name} as well, with {what}")
    return None
