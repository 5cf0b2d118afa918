"""Open a checkpoint folder: its config, its weight files, and where each tensor lies.

Names found in files (the index) are data from a stranger: a name must lead to a regular file inside the folder. A plain
name may be a symlink to anywhere, since the Hub cache stores every file as one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from spectool.checkpoint import absent, partial, pickle_names
from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.header import read_header
from spectool.checkpoint.json_text import parse_json
from spectool.checkpoint.origin import Origin
from spectool.checkpoint.small_file import read_small_text
from spectool.errors import SourceError

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"

MAX_JSON_BYTES = 64 * 2**20
MAX_READ_BYTES = 64 * 2**20

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@[\w./-]+)?")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint folder whose files were found and whose headers were checked; no tensor is in memory."""

    root: Path
    config: dict[str, Any]
    config_text: str
    tensors: Mapping[str, TensorInfo]
    files: tuple[str, ...]
    """Weight files, relative to `root`, sorted."""
    total_bytes: int
    """Bytes of all tensors together, headers not counted."""
    side_files: tuple[str, ...]
    """Names of the other files at the top of the folder (no config.json, no weights, no index of them), sorted. Of a
    mirror of the Hub they need not be here."""
    origin: Origin | None = None
    """The commit it is read at, where it is a repository of the Hub."""
    some: bool = False
    """Whether weight files were left out, so that `tensors` are not all."""

    def read(self, name: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """Return the bytes of one small tensor, little-endian as stored.

        Raises:
            KeyError: the checkpoint has no such tensor.
            SourceError: the tensor is larger than `max_bytes`, or its file cannot be read or shrank.

        """
        tensor = self.tensors[name]
        if tensor.nbytes > max_bytes:
            raise SourceError(
                f"{tensor.file}: tensor {name!r} has {tensor.nbytes} bytes; at most {max_bytes} are read into memory"
            )
        return _read_start(tensor, tensor.nbytes)

    def peek(self, name: str, nbytes: int) -> bytes:
        """Return the first bytes of a tensor, all of them where it has fewer.

        Raises:
            KeyError: the checkpoint has no such tensor.
            SourceError: its file cannot be read or shrank.

        """
        tensor = self.tensors[name]
        return _read_start(tensor, min(nbytes, tensor.nbytes))


def _read_start(tensor: TensorInfo, nbytes: int) -> bytes:
    partial.ensure(tensor.file, tensor.start, nbytes, limit=partial.MAX_SMALL)
    try:
        with tensor.file.open("rb") as stream:
            stream.seek(tensor.start)
            data = stream.read(nbytes)
    except OSError as error:
        raise SourceError(f"{tensor.file}: cannot be read: {error.strerror or error}") from error
    if len(data) != nbytes:
        raise SourceError(f"{tensor.file}: tensor {tensor.name!r}: {len(data)} of {nbytes} bytes left in the file")
    return data


def open_checkpoint(
    root: Path,
    *,
    need_weights: bool = True,
    names: Sequence[str] | None = None,
    only: Collection[str] | None = None,
) -> Checkpoint:
    """Read a folder's config.json and the headers of its safetensors files.

    Args:
        root: the folder.
        names: the files at its top, where not all of them are here (a mirror of the Hub); else the folder is listed.
        only: of the files an index names, those to read; the checkpoint then has their tensors alone.
        need_weights: whether a folder without safetensors files (or with an index whose files were not downloaded) is
            an error; otherwise its `tensors` are empty. Its config.json is then a verifier's, which nothing copies, and
            may hold `NaN` and `Infinity`.

    Raises:
        SourceError: the folder or a file is missing, unreadable, malformed, or outside the folder; the index and the
            files disagree; or the weights are pickles.

    """
    names = _list_folder(root) if names is None else sorted(names)
    if CONFIG_NAME not in names and not os.path.lexists(root / CONFIG_NAME):
        raise absent.no_config(root)
    config, config_text = read_json(root / CONFIG_NAME, constants=not need_weights)
    if not isinstance(config, dict):
        raise SourceError(f"{root / CONFIG_NAME}: must be a JSON object, found {type(config).__name__}")
    files, mapped = _weight_files(root, names, need_weights=need_weights, only=only)
    if mapped is not None and only is not None:
        mapped = {name: file for name, file in mapped.items() if file in only}
    tensors = _collect(root, files)
    if mapped is not None and files:
        _check_index(root, mapped, tensors)
    used = {CONFIG_NAME, *files, *([INDEX_NAME, pickle_names.INDEX] if mapped is not None else [])}
    return Checkpoint(
        root=root,
        config=config,
        config_text=config_text,
        tensors=tensors,
        files=files,
        total_bytes=sum(tensor.nbytes for tensor in tensors.values()),
        side_files=tuple(name for name in names if name not in used),
        some=mapped is not None and only is not None,
    )


def read_json(path: Path, *, constants: bool = False) -> tuple[Any, str]:
    """Return a JSON file's value and its text; `constants` as `parse_json` has it.

    Raises:
        SourceError: the file is missing, no regular file, larger than 64 MiB, not UTF-8, or not strict JSON
            (`spectool.checkpoint.json_text`).

    """
    text = read_small_text(path, MAX_JSON_BYTES, what="no configuration is")
    return parse_json(text, str(path), constants=constants), text


def _list_folder(root: Path) -> list[str]:
    """Return the sorted names of the files (or links to files) at the top of the folder."""
    try:
        if root.is_dir():
            with os.scandir(root) as entries:
                # A link to weights that are not there is a download that broke off, and no folder without weights.
                return sorted(
                    entry.name
                    for entry in entries
                    if entry.is_file() or (entry.is_symlink() and entry.name.endswith(".safetensors"))
                )
        if root.exists():
            raise SourceError(f"{root}: is a file, not a folder", hint=f"Give the folder that holds it: {root.parent}")
    except OSError as error:
        raise SourceError(f"{root}: cannot be read: {error.strerror or error}") from error
    if _HUB_ID.fullmatch(str(root)):
        repo = str(root).partition("@")[0]
        raise SourceError(
            f"{root}: no such folder; a repository of the Hub cannot be used here",
            hint=f"Download it first: hf download {repo} --local-dir {repo.rpartition('/')[2]}",
        )
    raise absent.no_folder(root)


def _weight_files(
    root: Path, names: Sequence[str], *, need_weights: bool, only: Collection[str] | None
) -> tuple[tuple[str, ...], Mapping[str, str] | None]:
    """Return the weight files, sorted, and the index's map when the index chose them."""
    # transformers (the trainer's reading) takes the single file when both are there; the engine takes what the index
    # names. Producers upload one or the other, and a leftover index is the usual reason to find both.
    if WEIGHTS_NAME in names:
        return (WEIGHTS_NAME,), None
    if INDEX_NAME in names:
        mapped = read_index(root)
        files = tuple(sorted(file for file in set(mapped.values()) if only is None or file in only))
        if not need_weights and not any((root / file).exists() for file in files):
            return (), mapped
        for file in files:
            _check_inside(root, file)
        return files, mapped
    others = [name for name in names if name.endswith(".safetensors")]
    if len(others) == 1:
        return (others[0],), None
    if others:
        raise SourceError(
            f"{root}: {len(others)} safetensors files ({', '.join(others[:3])}, ...) and no {INDEX_NAME}",
            hint="Add the index file that belongs to them, or leave one file in the folder.",
        )
    if not need_weights:
        return (), None
    found = pickle_names.choose(names)
    if found == pickle_names.INDEX:
        mapped = read_index(root, found)
        files = tuple(sorted(set(mapped.values())))
        for file in files:
            _check_inside(root, file)
        return files, mapped
    if found is not None:
        return (found,), None
    raise absent.no_weights(root, (WEIGHTS_NAME, INDEX_NAME))


def read_index(root: Path, name: str = INDEX_NAME) -> dict[str, str]:
    """Return the index's map of tensor names to file names.

    Raises:
        SourceError: it cannot be read, or a file name leads out of the folder.

    """
    path = root / name
    document, _ = read_json(path)
    mapped = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(mapped, dict) or not mapped:
        raise SourceError(f"{path}: needs a weight_map of tensor names to file names")
    for tensor, file in mapped.items():
        if not isinstance(file, str):
            raise SourceError(f"{path}: weight_map: tensor {tensor!r}: the file name must be a text, found {file!r}")
        parts = PurePosixPath(file).parts
        # The normal form only: nothing absolute, no "..", no "./x" beside "x" that would count as two files.
        if not parts or file != "/".join(parts) or ".." in parts or "\0" in file or "\\" in file:
            raise SourceError(f"{path}: weight_map: tensor {tensor!r}: {file!r} is no plain name inside the folder")
    return mapped


def _check_inside(root: Path, file: str) -> None:
    path = root / file
    try:
        if not path.is_file():
            what = "is no regular file" if path.exists() else "is missing"
            raise SourceError(
                f"{path}: named in {INDEX_NAME}, and {what}", hint="The download is incomplete. Download it again."
            )
        if "/" in file and not path.resolve().is_relative_to(root.resolve()):
            raise SourceError(f"{path}: named in {INDEX_NAME}, and lies outside the folder")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _collect(root: Path, files: Sequence[str]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for file in files:
        for name, tensor in _tensors_in(root / file).items():
            if name in tensors:
                raise SourceError(f"{root}: tensor {name!r} is in two files: {tensors[name].file.name} and {file}")
            tensors[name] = tensor
    return tensors


def _tensors_in(file: Path) -> Mapping[str, TensorInfo]:
    if not pickle_names.is_pickle(file.name):
        return read_header(file).tensors
    from spectool.checkpoint.pickles import read_pickled_tensors  # noqa: PLC0415 - it imports torch

    return read_pickled_tensors(file)


def _check_index(root: Path, mapped: Mapping[str, str], tensors: Mapping[str, TensorInfo]) -> None:
    pickled = any(map(pickle_names.is_pickle, mapped.values()))
    path = root / (pickle_names.INDEX if pickled else INDEX_NAME)
    for name, file in mapped.items():
        found = tensors.get(name)
        if found is None or found.file != root / file:
            where = "no file has it" if found is None else f"it is in {found.file.relative_to(root)}"
            raise SourceError(f"{path}: weight_map puts tensor {name!r} in {file}; {where}")
    if unmapped := sorted(tensors.keys() - mapped.keys()):
        first = tensors[unmapped[0]]
        raise SourceError(
            f"{path}: weight_map leaves out {len(unmapped)} tensor(s) that the files hold, "
            f"among them {first.name!r} in {first.file.relative_to(root)}"
        )
