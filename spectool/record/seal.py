"""How a record is spelled and sealed: one record has one spelling, and its digest stands in it."""

from __future__ import annotations

import hashlib
import json

from spectool.formats.provenance import Provenance


def dump_json(document: object) -> bytes:
    """Spell a JSON document as every output file of spectool is spelled."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def spelled(record: Provenance) -> bytes:
    """Return the bytes of `provenance.json`."""
    return dump_json(record.model_dump(mode="json", exclude_none=True))


def digest_of(record: Provenance) -> str:
    """Return the digest a record must carry: that of its spelling with `sha256` empty."""
    return hashlib.sha256(spelled(record.model_copy(update={"sha256": ""}))).hexdigest()


def sealed(record: Provenance) -> Provenance:
    """Return the record with its digest. It shows damage and careless edits; it is no signature."""
    return record.model_copy(update={"sha256": digest_of(record)})
