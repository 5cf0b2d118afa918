"""Hold a conversion against the record of an earlier one: the same source, made the same way, gives the same bytes."""

from __future__ import annotations

from typing import Any

from spectool.errors import RefusedError, UsageError
from spectool.formats.provenance import Origin, Provenance
from spectool.record.seal import digest_of

_SHOWN = 8


def require_intact(record: Provenance, name: str) -> None:
    """Raise for a record whose digest is not its own.

    Raises:
        RefusedError: it was damaged or edited.

    """
    if record.sha256 != digest_of(record):
        raise RefusedError(
            f"{name} was changed since it was written: its digest is not its own",
            hint="`convert --verify` says what else does not fit.",
        )


def require_origin(what: str, recorded: Origin, found: Origin) -> None:
    """Raise where a source or verifier is not the recorded one, by commit and by the digest of its config.json.

    A local folder shows no commit: then the record's word for it stands, and only the content is proved.

    Raises:
        UsageError: the recorded one was read, and none is given.
        RefusedError: another one is given.

    """
    if recorded.sha256 is None:
        return
    name = recorded.repository or recorded.name
    if found.sha256 is None:
        raise UsageError(f"the recorded conversion read the {what} {name}", hint=f"Give the folder of that {what}.")
    if found.commit is not None and recorded.commit is not None and found.commit != recorded.commit:
        raise RefusedError(f"this {what} is commit {found.commit}, recorded is {recorded.commit} of {name}")
    if found.sha256 != recorded.sha256:
        raise RefusedError(f"this {what} is not the recorded one ({name}): its config.json differs")


def require_same(made: Provenance, recorded: Provenance) -> None:
    """Raise where a repeated conversion came out otherwise. Another version of spectool alone is no difference.

    Raises:
        RefusedError: files, tensors or entries of the record differ; they are named.

    """
    wanted = recorded.model_copy(update={"tool": made.tool, "sha256": made.sha256})
    found = list(_differences(wanted.model_dump(mode="json"), made.model_dump(mode="json"), ""))
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise RefusedError(
            f"the repeated conversion differs from the record: {'; '.join(found[:_SHOWN])}{more}",
            hint="The source changed, the record was made up, or this version of spectool "
            f"({made.tool.version}, recorded {recorded.tool.version}) converts otherwise.",
        )


def _differences(wanted: Any, found: Any, path: str) -> list[str]:
    if wanted == found:
        return []
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            text
            for key in sorted(wanted.keys() | found.keys())
            for text in _differences(wanted.get(key), found.get(key), f"{path}.{key}" if path else key)
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [text for index, (old, new) in pairs for text in _differences(old, new, _entry(path, index, old))]
    return [path]


def _entry(path: str, index: int, item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    return f"{path}.{name or index}"
