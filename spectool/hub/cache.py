"""Where what was fetched lies, so that it is fetched once and is there without a network.

    $HF_HOME/spectool/HOST/ORG--NAME/refs/REVISION      the commit a revision stood for when it was last asked
    $HF_HOME/spectool/HOST/ORG--NAME/COMMIT/files.json  the commit's files
    $HF_HOME/spectool/HOST/ORG--NAME/COMMIT/NAME/       the folder that spectool reads
    $HF_HOME/spectool/HOST/ORG--NAME/COMMIT/parts/      which ranges of its incomplete files are there

Files that `hf download` or an engine put into the Hub's own cache are used and not fetched again.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from spectool.errors import SourceError
from spectool.hub.errors import host
from spectool.hub.reference import Reference, is_commit
from spectool.hub.repository import MAX_LISTING_BYTES, RemoteFile, Repository, parse_repository
from spectool.resources import expanded


def offline() -> bool:
    """Whether `HF_HUB_OFFLINE` forbids the network."""
    from huggingface_hub import constants  # noqa: PLC0415 - imported where needed: start-up stays quick

    return bool(constants.HF_HUB_OFFLINE)  # 1.0 has no is_offline_mode yet


def _home() -> Path | None:
    """Return HF_HOME; None where it lies in the home folder of a user that has none."""
    from huggingface_hub import constants  # noqa: PLC0415 - as above

    home = expanded(constants.HF_HOME)
    return None if str(home).startswith("~") else home


def folder_of(repo: str) -> Path:
    """Return where everything of a repository is kept.

    Raises:
        SourceError: there is no such place.

    """
    safe_host = re.sub(r"[^A-Za-z0-9.-]", "_", host()) or "_"
    home = _home()
    if home is None:
        raise SourceError(
            f"{repo}: there is no home folder to keep what is fetched in", hint="Set HF_HOME to a folder with space."
        )
    return home / "spectool" / safe_host / repo.replace("/", "--")


def keep(ref: Reference, repository: Repository) -> None:
    """Keep what the Hub said of a revision."""
    base = folder_of(ref.repo)
    write(base / repository.commit / "files.json", repository.kept())
    if not is_commit(ref.revision):
        write(base / "refs" / quote(ref.revision or "main", safe=""), f"{repository.commit}\n".encode())


def kept(ref: Reference) -> Repository | None:
    """Return what the Hub said of a reference before; None when it was not asked.

    Raises:
        SourceError: what was kept is damaged.

    """
    if _home() is None:
        return None
    base = folder_of(ref.repo)
    commit = ref.revision
    if not is_commit(commit):
        try:
            commit = (base / "refs" / quote(ref.revision or "main", safe="")).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            commit = None
    path = base / (commit or "none") / "files.json"
    if is_commit(commit) and path.is_file():
        if path.stat().st_size > 2 * MAX_LISTING_BYTES:
            raise SourceError(f"{path}: is too long for a list of files", hint="Remove it.")
        return parse_repository(Reference(ref.repo, commit), path.read_bytes(), str(path))
    return None


def in_hub_cache(repo: str, commit: str, name: str) -> Path | None:
    """Return a file of the Hub's own cache, where it has it."""
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - as above

    found = try_to_load_from_cache(repo, name, revision=commit)
    return Path(found) if isinstance(found, str) and Path(found).is_file() else None


def downloaded(ref: Reference) -> Repository | None:
    """Return what the Hub's own cache has of a reference, as a repository of those files alone."""
    config = in_hub_cache(ref.repo, ref.revision or "main", "config.json")
    if config is None or not is_commit(config.parent.name):
        return None
    root = config.parent
    files = {}
    for folder, _, names in os.walk(root):
        for item in names:
            path = Path(folder) / item
            with suppress(OSError):
                name = path.relative_to(root).as_posix()
                files[name] = RemoteFile(name, path.stat().st_size)
    return Repository(ref.repo, root.name, files)


def write(path: Path, data: bytes) -> None:
    """Write a small file, whole or not at all.

    Raises:
        SourceError: the cache cannot be written.

    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> SourceError:
    """Return the error for a cache that cannot be written."""
    return SourceError(
        f"{path}: cannot be written: {error.strerror or error}",
        hint="What is fetched from the Hub is kept under HF_HOME; set it to a folder with space.",
    )
