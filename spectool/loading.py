"""Open what a user names: a drafter folder, a verifier folder, or a verifier's Hub id."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectool.checkpoint.folder import Checkpoint, open_checkpoint
from spectool.checkpoint.header import TensorInfo
from spectool.dialects.detect import candidates
from spectool.dialects.sources import SETTINGS
from spectool.dialects.view import View
from spectool.errors import RefusedError, SourceError
from spectool.formats.verifier import VerifierView, verifier_view

TOKENIZER = "tokenizer.json"
# `spectool.formats.provenance.FILE`, whose module is imported only where there is such a file: it builds many models.
RECORD = "provenance.json"
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9._/-]+)?")


@dataclass(frozen=True)
class LoadedVerifier:
    """A verifier. `view` is None when only its Hub id is known; `tensors` when its folder has no weights."""

    name: str
    root: Path | None
    view: VerifierView | None
    tensors: Mapping[str, TensorInfo] | None


def hub_id(text: str) -> str | None:
    """Return the repository id of `org/name` or `org/name@revision`; None when it is a folder or no id."""
    if Path(text).exists() or not _HUB_ID.fullmatch(text):
        return None
    return text.partition("@")[0]


def load_drafter(source: str) -> tuple[Checkpoint, View]:
    """Open a drafter folder: its config and headers.

    Raises:
        SourceError: the folder or a file in it cannot be read.
        RefusedError: the weights are GGUF.

    """
    _refuse_gguf(Path(source))
    checkpoint = open_checkpoint(Path(source))
    name = checkpoint.root.resolve().name
    return checkpoint, View(name, checkpoint.config, checkpoint.tensors, checkpoint.read, checkpoint.side_files)


def _refuse_gguf(path: Path) -> None:
    """Raise for a GGUF file, or a folder with nothing but such files: they hold renamed, mostly quantised tensors."""
    try:
        names = {item.suffix: item.name for item in (path.iterdir() if path.is_dir() else (path,))}
    except OSError:
        return  # opening it says why
    name = None if ".safetensors" in names else names.get(".gguf")
    if name is not None:
        raise RefusedError(
            f"{name} is a GGUF file, which spectool does not convert",
            hint="llama.cpp runs it; convert the safetensors original instead.",
            code="QNT001",
        )


def load_verifier(verifier: str) -> LoadedVerifier:
    """Open a verifier: `config.json` and headers of a folder, or the name alone of a Hub id.

    Raises:
        SourceError: the folder cannot be read, or describes no verifier.

    """
    name = hub_id(verifier)
    if name is not None:
        return LoadedVerifier(name, None, None, None)
    checkpoint = open_checkpoint(Path(verifier), need_weights=False)
    root = checkpoint.root.resolve()
    return LoadedVerifier(root.name, root, verifier_view(root.name, checkpoint.config), checkpoint.tensors or None)


def verifier_of(source: str) -> VerifierView | None:
    """Return a folder's view as a verifier if it is one: a language model with none of a drafter's parts.

    Raises:
        SourceError: the folder cannot be read.

    """
    checkpoint = open_checkpoint(Path(source), need_weights=False)
    view = View(source, checkpoint.config, checkpoint.tensors)
    drafts = any(name in checkpoint.tensors for name in ("fc.weight", "mask_hidden", "model.fc.weight"))
    if drafts or candidates(view) or "speculators_model_type" in checkpoint.config:
        return None
    try:
        return verifier_view(checkpoint.root.resolve().name, checkpoint.config)
    except SourceError:
        return None


def tokenizers_agree(drafter: Path, verifier: Path | None) -> bool | None:
    """Whether two folders' tokenizers map the same tokens to the same ids; None when one of them has none.

    By content: the same vocabulary in another spelling, or with other special-token settings, agrees.
    """
    paths = [folder / TOKENIZER for folder in (drafter, verifier) if folder is not None]
    if len(paths) < 2 or not all(path.is_file() for path in paths):
        return None
    try:
        texts = [path.read_bytes() for path in paths]
        if texts[0] == texts[1]:
            return True
        vocabularies = [_vocabulary(json.loads(text)) for text in texts]
    except (OSError, ValueError):
        return None
    return bool(vocabularies[0] == vocabularies[1])


def _vocabulary(tokenizer: Any) -> Any:
    model = tokenizer.get("model", {}) if isinstance(tokenizer, dict) else {}
    added = tokenizer.get("added_tokens") or [] if isinstance(tokenizer, dict) else []
    return model.get("vocab"), {item.get("content"): item.get("id") for item in added if isinstance(item, dict)}


def recorded_answers(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what a conversion's record settles about its own output.

    Only while the record fits the folder: another `config.json` than the one recorded makes the record void.
    """
    path = checkpoint.root / RECORD
    if not path.is_file():
        return {}
    from pydantic import ValidationError  # noqa: PLC0415 - imported where needed: start-up stays quick

    from spectool.formats.provenance import Provenance  # noqa: PLC0415 - imported where needed: start-up stays quick

    try:
        record = Provenance.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}
    digests = {item.name: item.sha256 for item in record.files}
    if digests.get("config.json") != hashlib.sha256((checkpoint.root / "config.json").read_bytes()).hexdigest():
        return {}
    return {key: value for key, value in record.settled.items() if key in SETTINGS}
