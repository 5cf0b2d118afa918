"""Write a checkpoint folder: whole or not at all, the same bytes for the same input, memory independent of its size.

Order: weight files, their index, side files, documents (config.json last), the documents `finish` returns; then the
folder is put in its place (`spectool.checkpoint.staging`). Every file is synced before the next begins.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from spectool.checkpoint import partial
from spectool.checkpoint.content import Content, FileRange, Inline, Zeros
from spectool.checkpoint.copying import BUFFER_BYTES, Sink
from spectool.checkpoint.digest import Digests, Followed
from spectool.checkpoint.folder import CONFIG_NAME
from spectool.checkpoint.layout import OutputTensor, Shard, check_names, encode_index, plan_shards
from spectool.checkpoint.sources import Sources
from spectool.checkpoint.staging import Staging
from spectool.errors import OutputError

__all__ = ["METADATA", "OutputTensor", "WrittenFile", "write_checkpoint"]

METADATA: Mapping[str, str] = MappingProxyType({"format": "pt"})
"""What transformers demands of a file's `__metadata__`."""

_NOTHING: Mapping[str, Path] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the output folder."""

    name: str
    nbytes: int
    sha256: str
    """Hexadecimal."""
    tensors: Mapping[str, str] = field(default_factory=dict)
    """Of a weight file: the digest of each tensor's bytes, by name."""


def write_checkpoint(
    out: Path,
    tensors: Sequence[OutputTensor],
    documents: Mapping[str, bytes],
    *,
    shard_bytes: int = 5_000_000_000,
    overwrite: bool = False,
    metadata: Mapping[str, str] = METADATA,
    side_files: Mapping[str, Path] = _NOTHING,
    finish: Callable[[Sequence[WrittenFile]], Mapping[str, bytes]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[WrittenFile, ...]:
    """Write a checkpoint folder.

    Args:
        out: the folder to be; missing parents are created.
        tensors: in any order. Weight files are `model.safetensors`, or shards with an index.
        documents: other files by name, config.json among them.
        shard_bytes: bytes of tensors in one file at most; a larger tensor has a file of its own.
        overwrite: replace `out` when it is an empty folder or a checkpoint.
        metadata: the `__metadata__` of every weight file.
        side_files: files by name, copied as they are.
        finish: called with everything written so far; returns the last documents (a record of it).
        progress: called with the bytes of weights written and the bytes of weights in all.

    Returns:
        All files, in the order they were written.

    Raises:
        OutputError: `out` exists or lies in, at or above a source folder; a name or shape is wrong; there is too little
            space; the output cannot be written.
        SourceError: a source file cannot be read, is too short, or changed meanwhile.
        ValueError: `shard_bytes` is not positive.

    """
    out = Path(os.path.abspath(out))  # noqa: PTH100  # resolve() would follow a symlink that must be refused
    shards = plan_shards(tensors, shard_bytes, metadata)
    index = encode_index(shards)
    check_names([*(shard.name for shard in shards), *index], [*side_files, *documents])
    _check_apart(out, [*_files_of(tensors), *side_files.values()])
    partial.prepare(_ranges_of(tensors))
    with Sources() as sources:
        contents = {name: FileRange(path, 0, sources.get(path).size) for name, path in side_files.items()}
        needed = sum(shard.nbytes for shard in shards) + sum(content.nbytes for content in contents.values())
        needed += sum(map(len, [*index.values(), *documents.values()]))
        try:
            with Staging(out, overwrite=overwrite) as staging, Digests() as digests:
                _check_space(out, needed)
                run = _Run(staging.path, sources, digests, progress, sum(shard.nbytes for shard in shards))
                for shard in shards:
                    run.write_weights(shard)
                for name, data in index.items():
                    run.write_document(name, data)
                for name, content in contents.items():
                    run.write(name, [content])
                for name in sorted(documents, key=lambda name: (name == CONFIG_NAME, name)):
                    run.write_document(name, documents[name])
                sources.check_unchanged()
                if finish is not None:
                    last = finish(run.written())
                    check_names([file.name for file in run.written()], last)
                    for name, data in last.items():
                        run.write_document(name, data)
                written = run.written()
                staging.publish()
                return written
        except OSError as error:
            where = error.filename or out
            raise OutputError(
                f"{where}: cannot be written: {error.strerror or error}",
                hint=f"The output needs {needed} bytes; {_free_bytes(out)} are free there.",
            ) from error


class _Run:
    """The files of one output, written one after the other."""

    def __init__(
        self,
        folder: Path,
        sources: Sources,
        digests: Digests,
        progress: Callable[[int, int], None] | None,
        weight_bytes: int,
    ) -> None:
        self._folder = folder
        self._sources = sources
        self._digests = digests
        self._progress = progress
        self._weight_bytes = weight_bytes
        self._weights_done = 0
        self._buffer = bytearray(BUFFER_BYTES)
        self._written: list[tuple[str, int, str | Followed, Sequence[str]]] = []

    def write_weights(self, shard: Shard) -> None:
        def moved(count: int) -> None:
            self._weights_done += count
            if self._progress is not None:
                self._progress(self._weights_done, self._weight_bytes)

        contents = [Inline(shard.header), *(tensor.content for tensor in shard.tensors)]
        self.write(shard.name, contents, moved, names=["", *(tensor.name for tensor in shard.tensors)])

    def write(
        self,
        name: str,
        contents: Sequence[Content],
        moved: Callable[[int], None] | None = None,
        *,
        names: Sequence[str] = (),
    ) -> None:
        """Write one file whose digest is computed beside, and with `names` of contents theirs as well."""
        fd = self._create(name)
        try:
            followed = self._digests.follow(fd, [content.nbytes for content in contents] if names else ())

            def advanced(count: int) -> None:
                self._digests.advanced(followed, count)
                if moved is not None:
                    moved(count)

            sink = Sink(fd, self._sources, self._buffer, advanced)
            for content in contents:
                sink.append(content)
            self._digests.completed(followed)
            os.fsync(fd)
        finally:
            os.close(fd)
        self._written.append((name, sum(content.nbytes for content in contents), followed, names))

    def write_document(self, name: str, data: bytes) -> None:
        fd = self._create(name)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        self._written.append((name, len(data), hashlib.sha256(data).hexdigest(), ()))

    def written(self) -> tuple[WrittenFile, ...]:
        """Return what was written so far, waiting for digests."""
        return tuple(self._one(*item) for item in self._written)

    def _one(self, name: str, nbytes: int, digest: str | Followed, names: Sequence[str]) -> WrittenFile:
        if isinstance(digest, str):
            return WrittenFile(name, nbytes, digest)
        whole, parts = self._digests.result(digest)
        # The first piece of a weight file is its header, which has no name.
        tensors = {tensor: sha256 for tensor, sha256 in zip(names, parts, strict=True) if tensor}
        return WrittenFile(name, nbytes, whole, tensors)

    def _create(self, name: str) -> int:
        # Readable too: the digest reads back what was written. The umask makes the mode.
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _files_of(tensors: Sequence[OutputTensor]) -> set[Path]:
    return {tensor.content.file for tensor in tensors if not isinstance(tensor.content, Zeros | Inline)}


def _ranges_of(tensors: Sequence[OutputTensor]) -> list[tuple[Path, int, int]]:
    contents = [tensor.content for tensor in tensors]
    return [(item.file, item.start, item.nbytes) for item in contents if not isinstance(item, Zeros | Inline)]


def _check_apart(out: Path, files: Sequence[Path]) -> None:
    """Refuse an output that could damage its own source, or become part of it."""
    real = Path(os.path.realpath(out))
    folders = {os.path.realpath(file.parent) for file in files}
    folders |= {os.path.dirname(os.path.realpath(file)) for file in files}  # noqa: PTH120  # where a link leads
    for folder in map(Path, sorted(folders)):
        if real.is_relative_to(folder) or folder.is_relative_to(real):
            where = (
                f"lies inside {folder}, the folder" if real.is_relative_to(folder) else f"holds {folder}, the folder"
            )
            where = "is the folder" if real == folder else where
            raise OutputError(f"{out} {where} that is read from", hint="Name a folder apart from it.")


def _check_space(out: Path, needed: int) -> None:
    free = _free_bytes(out)
    if needed > free:
        raise OutputError(
            f"{out}: the output needs {needed} bytes; {free} are free there",
            hint="Free some space, or name a folder on another file system.",
        )


def _free_bytes(path: Path) -> int:
    while not path.is_dir() and path != path.parent:
        path = path.parent
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
