"""Send a finished folder to the Hub: what exactly is said before, one commit, never without a licence.

Upload is `huggingface_hub`'s: it stores large files apart, and the commit that names them comes last, so a repository
has all of the folder or nothing of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectool.errors import OutputError, RefusedError, SourceError, UsageError
from spectool.hub import cache
from spectool.hub.errors import LOGIN, describe, endpoint, transport_error
from spectool.hub.reference import reference
from spectool.hub.repository import Repository
from spectool.hub.talk import say

CARD = "README.md"
_LICENCE = re.compile(r"(licen[cs]es?|copying)([._-][\w.-]*)?", re.IGNORECASE)
_WEIGHTS = (".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json")


@dataclass(frozen=True)
class Publication:
    """What would be sent. `files` are names and sizes in bytes, None where only writing decides the size."""

    repo: str
    private: bool
    files: tuple[tuple[str, int | None], ...]

    @property
    def card(self) -> bool:
        """Whether a model card is among the files."""
        return any(name == CARD for name, _ in self.files)

    @property
    def licences(self) -> tuple[str, ...]:
        """The files that state a licence."""
        return tuple(name for name, _ in self.files if is_licence(name))


def is_licence(name: str) -> bool:
    """Whether a file states a licence by its name. A notice goes along, but is none."""
    return _LICENCE.fullmatch(name) is not None and not name.lower().endswith((".json", ".py"))


def publication(repo: str, files: Sequence[tuple[str, int | None]], *, private: bool = False) -> Publication:
    """Return what would be sent.

    Raises:
        UsageError: `repo` is no `org/name`.
        RefusedError: no file states a licence.

    """
    # The text must be read as a name even where a folder of that name exists: nothing is read from there.
    match = reference(repo, folders=False)
    if match is None or match.revision is not None:
        raise UsageError(f"{repo} is no name of a repository", hint="Write org/name.")
    found = Publication(match.repo, private, tuple(files))
    if not found.licences:
        raise RefusedError(
            f"{repo}: nothing is published without a licence, and the source has no licence file",
            hint="Put the LICENSE it is under into its folder (of a repository: hf download), and convert that.",
        )
    return found


def files_of(folder: Path) -> tuple[tuple[str, int], ...]:
    """Return the files of a folder with their sizes.

    Raises:
        OutputError: it cannot be read, or holds anything but files at its top.

    """
    try:
        entries = sorted(folder.iterdir())
        for entry in entries:
            if entry.is_symlink() or not entry.is_file() or entry.name.startswith("."):
                raise OutputError(f"{entry}: only plain files at the top of a folder are published")
        return tuple((entry.name, entry.stat().st_size) for entry in entries)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be read: {error.strerror or error}") from error


def check_target(repo: str, *, private: bool = False, replace: bool = False) -> None:
    """Find out before the work whether a publication could succeed.

    Raises:
        OutputError: there is no token, no network, a model is there already and `replace` is off, or the repository is
            there, public, and `private` is wanted.

    """
    from huggingface_hub import get_token  # noqa: PLC0415 - imported where needed: start-up stays quick

    if cache.offline():
        raise OutputError(f"{repo}: cannot be published: HF_HUB_OFFLINE is set", hint="Unset it.")
    if not get_token():
        raise OutputError(f"{repo}: cannot be published without a token", hint=LOGIN)
    found = _present(repo)
    names = sorted(found.files) if found is not None else []
    if private and found is not None and not found.private:
        raise OutputError(
            f"{repo}: exists and is not private",
            hint="Make it private in its settings first, name another repository, or leave --private out.",
        )
    if names and not replace and any(name == "config.json" or name.endswith(_WEIGHTS) for name in names):
        raise OutputError(
            f"{repo}: holds a model already",
            hint="Name another repository, or replace it with --force; its history keeps what it held.",
        )


def publish(folder: Path, repo: str, *, private: bool = False, replace: bool = False) -> str:
    """Send a finished folder in one commit, and return the commit's address.

    Args:
        folder: what `convert` wrote; its README.md, if it has one, is the model card.
        repo: `org/name`; made if it does not exist.
        private: whether a repository that is made is private. An existing one has to be.
        replace: whether a model that is there already is replaced, its weights removed.

    Raises:
        RefusedError: the folder has no licence file.
        OutputError: the folder cannot be read, or the Hub refuses it or breaks off.

    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi  # noqa: PLC0415 - as above

    from spectool import __version__  # noqa: PLC0415 - as above

    planned = publication(repo, files_of(folder), private=private)
    check_target(repo, private=private, replace=replace)
    new = {name for name, _ in planned.files}
    there = _present(repo)
    stale = [
        name for name in sorted(there.files if there is not None else ()) if name.endswith(_WEIGHTS) and name not in new
    ]
    total = sum(size or 0 for _, size in planned.files)
    say(f"sending {len(planned.files)} files, {total} bytes, to {planned.repo}")
    api = HfApi(endpoint=endpoint(), library_name="spectool", library_version=__version__)
    operations: list[Any] = [CommitOperationAdd(name, str(folder / name)) for name, _ in planned.files]
    operations += [CommitOperationDelete(name) for name in stale]
    with _quietly():
        try:
            api.create_repo(planned.repo, private=private, exist_ok=True)
            done = api.create_commit(planned.repo, operations, commit_message=_message(folder))
        except (transport_error(), OSError, ValueError, RuntimeError) as error:
            raise OutputError(
                f"{planned.repo}: was not published: {_reason(error)}",
                hint=f"The folder is complete. Repeat with --force, or: hf upload {planned.repo} {folder}",
            ) from None
    return str(done.commit_url)


def _present(repo: str) -> Repository | None:
    """Return what a repository holds now; None where it does not exist."""
    from spectool.hub.client import resolve  # noqa: PLC0415 - as above
    from spectool.hub.errors import NotFoundError  # noqa: PLC0415 - as above

    match = reference(repo, folders=False)
    if match is None:
        raise UsageError(f"{repo} is no name of a repository", hint="Write org/name.")
    try:
        return resolve(match)
    except NotFoundError:
        return None
    except SourceError as error:
        raise OutputError(error.message, hint=error.hint) from None


def _message(folder: Path) -> str:
    try:
        record = json.loads((folder / "provenance.json").read_bytes())
        return f"Convert {record['source']['name']} with spectool {record['tool']['version']}"[:200]
    except (OSError, ValueError, KeyError, TypeError):
        return "Publish with spectool"


def _reason(error: BaseException) -> str:
    """Say why an upload failed, without addresses (they are signed) and without what was sent."""
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        if response is not None:
            text = response.headers.get("x-error-message", "")
            return f"the Hub answers with status {response.status_code}" + (f": {text[:200]}" if text else "")
        cause = cause.__cause__ or cause.__context__
    return describe(error)


@contextmanager
def _quietly() -> Iterator[None]:
    """Turn off the client's own progress bars where nobody looks at a terminal."""
    # Documented, and exported without saying so.
    from huggingface_hub import utils  # noqa: PLC0415 - as above

    silenced = not sys.stderr.isatty() and not utils.are_progress_bars_disabled()  # type: ignore[attr-defined]  # the module does not export it by name
    if silenced:
        utils.disable_progress_bars()  # type: ignore[attr-defined]  # the module does not export it by name
    try:
        yield
    finally:
        if silenced:
            utils.enable_progress_bars()  # type: ignore[attr-defined]  # the module does not export it by name
