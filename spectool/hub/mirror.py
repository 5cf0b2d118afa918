"""A folder with those bytes of a commit that were needed so far. `open_checkpoint` reads it like any other."""

from __future__ import annotations

import hashlib
from pathlib import Path

from spectool.checkpoint import partial
from spectool.checkpoint.folder import MAX_JSON_BYTES
from spectool.errors import SourceError
from spectool.hub import cache
from spectool.hub.client import read_range, resolve
from spectool.hub.errors import host
from spectool.hub.part import Part
from spectool.hub.reference import Reference, is_commit
from spectool.hub.repository import RemoteFile, Repository
from spectool.hub.talk import Moving

_resolved: dict[tuple[str, Reference], Repository] = {}


class Mirror:
    """The folder of one commit."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._base = cache.folder_of(repository.repo) / repository.commit
        self.root = self._base / repository.repo.rpartition("/")[2]

    def small(self, name: str, limit: int = MAX_JSON_BYTES) -> Path:
        """Bring a whole small file here, and return its path.

        Raises:
            SourceError: there is none, it is larger than `limit`, cannot be fetched, or is not what the Hub lists.

        """
        file = self.repository.file(name)
        path = self.root / name
        if path.is_file() or self._linked(file, path):
            return path
        if file.size > limit:
            raise SourceError(f"{self.repository.repo}: {name} has {file.size} bytes; at most {limit} are fetched")
        self._online(file)
        moving = Moving(f"fetching {self.repository.repo} {name}", file.size)
        pieces = []
        for piece in read_range(self.repository, file, 0, file.size):
            pieces.append(piece)
            moving.moved(len(piece))
        moving.ended()
        data = b"".join(pieces)
        self._check(file, data)
        cache.write(path, data)
        return path

    def weights(self, name: str) -> Path:
        """Return the path of a weight file, whose bytes are fetched when they are asked for.

        Raises:
            SourceError: the commit has no such file, or the cache cannot be written.

        """
        file = self.repository.file(name)
        path = self.root / name
        if not self._linked(file, path):
            partial.register(path, Part(path, self._base / "parts", self.repository, file))
        return path

    def _linked(self, file: RemoteFile, path: Path) -> bool:
        """Use the Hub's own cache where it has a file of the listed size."""
        found = cache.in_hub_cache(self.repository.repo, self.repository.commit, file.name)
        if found is None or found.stat().st_size != file.size:
            return path.is_symlink() and path.is_file()
        if path.is_symlink() and path.is_file():
            return True
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(found.absolute())
        except OSError as error:
            raise cache.unwritable(path, error) from error
        return True

    def _online(self, file: RemoteFile) -> None:
        if cache.offline():
            raise not_kept(f"{self.repository.repo}: {file.name}")

    def _check(self, file: RemoteFile, data: bytes) -> None:
        if file.sha256 is not None:
            right = hashlib.sha256(data).hexdigest() == file.sha256
        elif file.blob is not None:
            # What git hashes: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
            head = f"blob {len(data)}\0".encode()
            right = hashlib.sha1(head + data, usedforsecurity=False).hexdigest() == file.blob
        else:
            right = True
        if not right:
            raise SourceError(
                f"{self.repository.repo}: {file.name} is not the file that the Hub lists: its digest differs",
                hint="Repeat; if it stays, something between you and the Hub changes files.",
            )


def mirror_of(ref: Reference) -> Mirror:
    """Return the mirror of what a reference stands for: asked once per run, so that it cannot move in between.

    Raises:
        SourceError: it cannot be found, read or reached; without a network, nothing of it was fetched before.

    """
    key = (host(), ref)
    if key not in _resolved:
        _resolved[key] = _resolve(ref)
        # The commit is what later steps of this run name.
        _resolved[host(), Reference(ref.repo, _resolved[key].commit)] = _resolved[key]
    return Mirror(_resolved[key])


def _resolve(ref: Reference) -> Repository:
    if cache.offline():
        found = cache.kept(ref) or cache.downloaded(ref)
        if found is None:
            raise not_kept(str(ref))
        return found
    if is_commit(ref.revision) and (found := cache.kept(ref)) is not None:
        return found
    repository = resolve(ref)
    cache.keep(ref, repository)
    return repository


def not_kept(what: str) -> SourceError:
    """Return the error for what is not here and may not be fetched."""
    return SourceError(
        f"{what}: there is no such folder here, nothing of it was fetched before, and HF_HUB_OFFLINE forbids the "
        "network",
        hint="Unset HF_HUB_OFFLINE, or name a folder.",
    )


def forget() -> None:
    """Forget which commits were resolved, as a new run does."""
    _resolved.clear()
