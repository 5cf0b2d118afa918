"""Read the record of a folder that spectool wrote."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from spectool.checkpoint.folder import CONFIG_NAME, Checkpoint, read_json
from spectool.errors import SourceError
from spectool.formats.provenance import FILE, Provenance


def read_record(path: Path) -> Provenance:
    """Read a record: the file, or the folder that holds it.

    Raises:
        SourceError: there is none, or it is no record of this version.

    """
    if path.is_dir():
        path = path / FILE
    document, _ = read_json(path)
    try:
        return Provenance.model_validate(document)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise SourceError(
            f"{path}: no record of a conversion by this version of spectool: {where}: {fault['msg']}",
            hint="Convert the source again, or use the version that wrote it.",
        ) from None


def record_of(source: Checkpoint) -> Provenance | None:
    """Return the record of a folder, None where it has none that fits: another config.json makes it void."""
    if FILE not in source.side_files or not (source.root / FILE).is_file():
        return None
    try:
        record = read_record(source.root)
    except SourceError:
        return None
    digests = {item.name: item.sha256 for item in record.files}
    return record if digests.get(CONFIG_NAME) == hashlib.sha256(source.config_text.encode()).hexdigest() else None
