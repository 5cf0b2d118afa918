"""Parts of a drafter that lie beside its weights, in files of PyTorch's own format.

What a dialect file names (`[[side]]`) joins the folder's tensors, so that tensor rules place it like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.folder import Checkpoint
from spectool.dialects.predicates import matches
from spectool.dialects.view import View
from spectool.formats.dialect import SideFile

VALUES = "side_files"  # the key under which a side file's numbers and texts can be read


def with_side_files(
    checkpoint: Checkpoint, view: View, side: Sequence[SideFile], fetch: Callable[[str], None], *, need: bool = True
) -> tuple[Checkpoint, View]:
    """Return folder and view with what the side files hold; a file that is not there adds nothing.

    Args:
        checkpoint: the folder.
        view: the folder as readings see it.
        side: what the dialect looks for.
        fetch: called with the name of a file beside the weights before it is read: a repository's is brought here.
        need: whether a file that torch alone reads is an error where there is no torch; otherwise it stays unread, and
            `unread` names it.

    Raises:
        SourceError: a file cannot be read (`spectool.checkpoint.pickles`).

    """
    tensors: dict[str, TensorInfo] = {}
    values: dict[str, Any] = {}
    for item in side:
        if any(matches(predicate, view) for predicate in item.unless):
            continue
        if item.file in view.side_files:
            fetch(item.file)
        path = _find(checkpoint.root, item)
        if path is None:
            continue
        from spectool.checkpoint.pickles import TorchMissingError, read_pickle  # noqa: PLC0415 - it imports torch

        try:
            content = read_pickle(path)
        except TorchMissingError:
            if need:
                raise
            continue
        entries = content.items() if isinstance(content, dict) else [("", content)]
        values[path.stem] = {}
        for key, value in entries:
            if isinstance(value, TensorInfo):
                name = f"{item.file}:{key}"
                tensors[name] = value._replace(name=name)
            elif isinstance(key, str) and isinstance(value, str | int | float | bool):
                values[path.stem][key] = value
    if not values:
        return checkpoint, view
    joined = replace(checkpoint, tensors={**checkpoint.tensors, **tensors})
    config = {**view.config, VALUES: values}
    return joined, replace(view, tensors=joined.tensors, config=config, read=joined.read)


def unread(view: View, side: Sequence[SideFile]) -> list[str]:
    """Return the names of side files that are there and were not read."""
    known = view.config.get(VALUES) or {}
    return [item.file for item in side if item.file in view.side_files and item.file.partition(".")[0] not in known]


def _find(root: Path, item: SideFile) -> Path | None:
    return next((path for path in _places(root, item) if path.is_file()), None)


def _places(root: Path, item: SideFile) -> Iterator[Path]:
    folder = root.resolve()
    yield root / item.file  # the folder's own way there: a file of the Hub's cache is a link
    for parent in list(folder.parents)[: item.above]:
        yield parent / item.file
