"""What a user means by `org/name` or `org/name@revision`; imported by every command, so it imports nothing large."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_REPO = r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*"
_REFERENCE = re.compile(rf"(?P<repo>{_REPO})(@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]*))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
MAX_LENGTH = 300


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository of models and, where it was named, a revision: a branch, a tag or a commit."""

    repo: str
    revision: str | None = None

    @property
    def name(self) -> str:
        """The repository's name without its owner: that of the folder it would be downloaded to."""
        return self.repo.rpartition("/")[2]

    def __str__(self) -> str:
        return self.repo if self.revision is None else f"{self.repo}@{self.revision}"


def reference(text: str, *, folders: bool = True) -> Reference | None:
    """Return what a text names on the Hub; None for a folder, which wins over a repository of the same name.

    Without `folders` there is no look at what exists here.
    """
    if len(text) > MAX_LENGTH or (folders and Path(text).exists()):
        return None
    match = _REFERENCE.fullmatch(text)
    if match is None or ".." in text:
        return None
    return Reference(match["repo"], match["revision"])


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a whole commit id, which never moves."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None
