"""A commit of a repository: its files with their sizes and digests, as the Hub lists them or a cache keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spectool.checkpoint.json_text import parse_json
from spectool.errors import SourceError
from spectool.hub.reference import Reference, is_commit

MAX_LISTING_BYTES = 32 * 2**20
MAX_FILE_BYTES = 2**50
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a commit; `sha256` is known of files in large-file storage, `blob` (git's own digest) of the others."""

    name: str
    size: int
    sha256: str | None = None
    blob: str | None = None


@dataclass(frozen=True)
class Repository:
    """A commit of a repository."""

    repo: str
    commit: str
    files: Mapping[str, RemoteFile]
    license: str | None = None
    private: bool | None = None
    """Whether only some may see it; None where that was not said."""

    @property
    def top(self) -> tuple[str, ...]:
        """Names of the files that lie in no folder, sorted."""
        return tuple(sorted(name for name in self.files if "/" not in name))

    def file(self, name: str) -> RemoteFile:
        """Return a file.

        Raises:
            SourceError: the commit has none of that name.

        """
        if name not in self.files:
            raise SourceError(f"{self.repo}: commit {self.commit[:12]} has no file {name}")
        return self.files[name]

    def kept(self) -> bytes:
        """Return it as a cache keeps it: in the Hub's own form, so that one parser reads both."""
        siblings: list[dict[str, Any]] = []
        for file in self.files.values():
            entry: dict[str, Any] = {"rfilename": file.name, "size": file.size}
            if file.sha256 is not None:
                entry["lfs"] = {"sha256": file.sha256}
            if file.blob is not None:
                entry["blobId"] = file.blob
            siblings.append(entry)
        document = {"sha": self.commit, "siblings": siblings, "cardData": {"license": self.license}}
        return (json.dumps(document, indent=1) + "\n").encode()


def parse_repository(ref: Reference, data: bytes, source: str) -> Repository:
    """Read a Hub's answer about a revision (`/api/models/REPO/revision/REVISION?blobs=true`).

    Raises:
        SourceError: it is no such answer, or names a file that could lie outside its folder.

    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError(f"{source}: is no text") from None
    if text.lstrip()[:1] != "{":
        raise SourceError(
            f"{source}: is no JSON object" + (" but a web page" if text.lstrip()[:1] == "<" else ""),
            hint="Is HF_ENDPOINT a Hub, and no proxy asking for a login?",
        )
    document = parse_json(text, source)
    commit, siblings = document.get("sha"), document.get("siblings")
    if not isinstance(commit, str) or not is_commit(commit):
        raise SourceError(f"{source}: names no commit")
    if is_commit(ref.revision) and commit != ref.revision:
        raise SourceError(f"{source}: is about commit {commit}, not {ref.revision}")
    if not isinstance(siblings, list):
        raise SourceError(f"{source}: lists no files")
    files = [_file(entry, source) for entry in siblings]
    card = document.get("cardData")
    name = card.get("license") if isinstance(card, dict) else None
    private = document.get("private")
    return Repository(
        ref.repo,
        commit,
        {file.name: file for file in files},
        name if isinstance(name, str) else None,
        private if isinstance(private, bool) else None,
    )


def _file(entry: Any, source: str) -> RemoteFile:
    name = entry.get("rfilename") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not is_plain(name):
        raise SourceError(f"{source}: {name!r} cannot be the name of a file in a repository")
    size = entry.get("size")
    lfs = entry.get("lfs")
    if isinstance(lfs, dict) and "size" in lfs:
        size = lfs["size"]
    if type(size) is not int or not 0 <= size <= MAX_FILE_BYTES:
        raise SourceError(f"{source}: {name}: {size!r} is no size")
    sha256 = lfs.get("sha256") if isinstance(lfs, dict) else None
    blob = entry.get("blobId")
    return RemoteFile(
        name,
        size,
        sha256 if isinstance(sha256, str) and _SHA256.fullmatch(sha256) else None,
        # Of a file in large-file storage, git has only a pointer.
        blob if lfs is None and isinstance(blob, str) and _SHA1.fullmatch(blob) else None,
    )


def is_plain(name: str) -> bool:
    """Whether a name is relative, in normal form, and stays inside its folder on every system."""
    parts = name.split("/")
    return (
        0 < len(name) <= 1024
        and all(0 < len(part.encode("utf-8", "replace")) <= 255 and part not in {".", ".."} for part in parts)
        and not _CONTROL.search(name)
        and name.isprintable()
    )
