"""Licences and notices of a source: which files go along with an output, and what the source calls its licence."""

from __future__ import annotations

import re
from pathlib import Path

from spectool.checkpoint.folder import Checkpoint
from spectool.errors import SourceError

_CARRIED = re.compile(
    r"(licen[cs]es?|notices?|copying|use[_-]policy|third[_-]party[a-z_-]*)([._-][\w.-]*)?", re.IGNORECASE
)
_NOT_TEXT = (".safetensors", ".json", ".bin", ".pt", ".pth", ".py", ".gguf")
_README = "README.md"
_MOST = 2**16
# The identifiers of the Hub are of this kind; anything else is not repeated.
_LICENCE = re.compile(r"""^license:[ \t]*["']?([A-Za-z0-9][A-Za-z0-9.+-]{0,63})["']?[ \t]*(#.*)?$""", re.MULTILINE)


def carried_files(source: Checkpoint) -> dict[str, Path]:
    """Return the licence and notice files at the top of a folder or repository by name; of the latter they are fetched.

    Raises:
        SourceError: one cannot be fetched, or is a link out of the folder: what lies elsewhere is not the source's to
            pass on.

    """
    names = [name for name in source.side_files if _CARRIED.fullmatch(name) and not name.lower().endswith(_NOT_TEXT)]
    return {name: _here(source, name) for name in names}


def _here(source: Checkpoint, name: str) -> Path:
    if source.origin is None:
        return _own(source.root, name)
    from spectool.hub.mirror import mirror_of  # noqa: PLC0415 - imported for a source on the Hub only
    from spectool.hub.reference import Reference  # noqa: PLC0415 - as above

    return mirror_of(Reference(source.origin.repo, source.origin.commit)).small(name)


def _own(root: Path, name: str) -> Path:
    path, folder = root / name, root.resolve()
    real = path.resolve()
    # The Hub's cache: models--org--name/snapshots/COMMIT/NAME leads to models--org--name/blobs/DIGEST.
    blobs = folder.parents[1] / "blobs" if folder.parent.name == "snapshots" else folder
    if not (real.is_relative_to(folder) or real.is_relative_to(blobs)):
        raise SourceError(
            f"{path}: is a link that leaves the folder, and would go along with the output",
            hint="Put the file itself there, or remove the link.",
        )
    return path


def licence_named(source: Checkpoint) -> str:
    """Return the licence in the front matter of a source's README.md; empty where none is named or can be read."""
    if _README not in source.side_files:
        return ""
    try:
        with _here(source, _README).open("rb") as stream:
            text = stream.read(_MOST).decode("utf-8", "replace")
    except (OSError, SourceError):
        return ""
    front = re.match(r"---[ \t]*\r?\n(.*?)^---", text, re.DOTALL | re.MULTILINE)
    found = _LICENCE.search(front[1].replace("\r", "")) if front else None
    return found[1] if found else ""
