"""Open what a user names: a folder, or a repository of the Hub as `org/name` or `org/name@revision`.

A folder of that name wins, as in transformers. The Hub's modules are imported only for a repository.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from spectool.checkpoint import partial
from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.folder import Checkpoint, open_checkpoint
from spectool.checkpoint.origin import Origin
from spectool.checkpoint.small_file import read_small
from spectool.dialects.detect import candidates
from spectool.dialects.view import View
from spectool.errors import RefusedError, SourceError
from spectool.formats.verifier import VerifierView, verifier_view
from spectool.hub.reference import Reference, reference

TOKENIZER = "tokenizer.json"
# ModelOpt's settings, which some quantised copies have beside a config.json that does not mention them.
QUANTISED_BESIDE = "hf_quant_config.json"
ADAPTER = "adapter_config.json"
_MOST_TOKENIZER_BYTES = 256 << 20  # the largest of today have 35 MB
# `spectool.formats.provenance.FILE`, whose module is imported only where there is such a file: it builds many models.
RECORD = "provenance.json"


@dataclass(frozen=True)
class LoadedVerifier:
    """A verifier. `view` is None when only its Hub id is known; `tensors` when its folder has no weights.

    Of a repository `tensors` may be those alone that are compared with a drafter's or borrowed; `origin` is its commit.
    `opened` is what was read of it.
    """

    name: str
    root: Path | None
    view: VerifierView | None
    tensors: Mapping[str, TensorInfo] | None
    origin: Origin | None = None
    opened: Checkpoint | None = None

    @property
    def where(self) -> str:
        """What names it again: its repository at the commit that was read, its folder, or its name."""
        return str(self.origin or self.root or self.name)


def hub_id(text: str) -> str | None:
    """Return the repository id of `org/name` or `org/name@revision`; None when it is a folder or no id."""
    ref = reference(text)
    return ref.repo if ref is not None else None


def load_drafter(source: str) -> tuple[Checkpoint, View]:
    """Open a drafter's folder or repository: its config and headers.

    Raises:
        SourceError: it or a file in it cannot be read.
        RefusedError: the weights are GGUF, or a LoRA adapter's.

    """
    checkpoint = _drafter(source)
    view = View(
        checkpoint.root.resolve().name,
        checkpoint.config,
        checkpoint.tensors,
        checkpoint.read,
        checkpoint.side_files,
        peek=checkpoint.peek,
    )
    return checkpoint, view


def _drafter(source: str) -> Checkpoint:
    ref = reference(source)
    if ref is None:
        _refuse_foreign(_names_in(Path(source)))
        return open_checkpoint(Path(source))
    from spectool.hub.mirror import mirror_of  # noqa: PLC0415 - imported where needed: start-up stays quick
    from spectool.hub.open import open_drafter  # noqa: PLC0415 - as above

    _refuse_foreign(mirror_of(ref).repository.top)
    return open_drafter(ref)


def fetch_side_file(checkpoint: Checkpoint, name: str) -> None:
    """Make a file beside a drafter's weights readable: a repository's is brought here whole.

    Raises:
        SourceError: it cannot be fetched.

    """
    if checkpoint.origin is None:
        return
    from spectool.hub.mirror import mirror_of  # noqa: PLC0415 - imported where needed: start-up stays quick

    mirror = mirror_of(Reference(checkpoint.origin.repo, checkpoint.origin.commit))
    partial.ensure(mirror.weights(name), 0, mirror.repository.file(name).size)


def _names_in(path: Path) -> list[str]:
    """Return the names in a folder, or a file's own."""
    try:
        return [item.name for item in (path.iterdir() if path.is_dir() else (path,))]
    except OSError:
        return []  # opening it says why


def _foreign(names: Iterable[str]) -> tuple[str, str, str] | None:
    """Say what a folder without a model's own files is, what to do with it, and the rule's code; None for others.

    GGUF holds renamed, mostly quantised tensors; an adapter holds differences to a model that is elsewhere.
    """
    names = list(names)
    by_suffix = {PurePosixPath(name).suffix: name for name in names}
    name = None if ".safetensors" in by_suffix else by_suffix.get(".gguf")
    if name is not None:
        hint = "llama.cpp runs it; convert the safetensors original instead."
        return f"{name} is a GGUF file, which spectool does not convert", hint, "QNT001"
    if ADAPTER in names and "config.json" not in names:
        hint = "vLLM loads it beside its model: --enable-lora --lora-modules NAME=FOLDER."
        return f"{ADAPTER} and no config.json: a LoRA adapter, which drafts nothing by itself", hint, "CFG001"
    return None


def _refuse_foreign(names: Iterable[str]) -> None:
    if found := _foreign(names):
        what, hint, code = found
        raise RefusedError(what, hint=hint, code=code)


def load_verifier(verifier: str) -> LoadedVerifier:
    """Open a verifier: `config.json` and headers.

    Of a repository that `HF_HUB_OFFLINE` puts out of reach and that was not fetched before, the name alone is known.

    Raises:
        SourceError: it cannot be read, or describes no verifier.

    """
    repo = hub_id(verifier)
    checkpoint = open_verifier(verifier)
    if checkpoint is None:
        return LoadedVerifier(repo or verifier, None, None, None)
    root = checkpoint.root.resolve()
    name = repo or root.name
    view = verifier_view(name, checkpoint.config)
    if view.quantization is None and QUANTISED_BESIDE in checkpoint.side_files:
        view = view.model_copy(update={"quantization": QUANTISED_BESIDE})
    return LoadedVerifier(name, root, view, checkpoint.tensors or None, checkpoint.origin, checkpoint)


def open_verifier(verifier: str) -> Checkpoint | None:
    """Open a verifier's folder or repository; None for a repository that nothing but its name is known of.

    Raises:
        SourceError: it cannot be read.

    """
    ref = reference(verifier)
    if ref is None:
        _check_verifier(Path(verifier))
        return open_checkpoint(Path(verifier), need_weights=False)
    from spectool.hub import open as hub  # noqa: PLC0415 - imported where needed: start-up stays quick

    if not hub.known(ref):
        return None
    try:
        return hub.open_verifier(ref)
    except SourceError as error:
        hint = f"{error.hint or ''} To go by the verifier's name alone: --set verifier={ref.repo}".strip()
        raise SourceError(error.message, hint=hint, code=error.code) from None


def _check_verifier(path: Path) -> None:
    if found := _foreign(_names_in(path)):
        hint = "Name the model's folder of safetensors, or its repository of the Hub as org/name."
        raise SourceError(f"--verifier {path}: {found[0]}", hint=hint)


def known_by_name_only(text: str) -> bool:
    """Whether a text names a repository that cannot be opened: without a network, and not fetched before."""
    ref = reference(text)
    if ref is None:
        return False
    from spectool.hub.open import known  # noqa: PLC0415 - imported where needed: start-up stays quick

    return not known(ref)


def verifier_of(source: str) -> VerifierView | None:
    """Return a folder's or repository's view as a verifier if it is one: a language model with no part of a drafter.

    Raises:
        SourceError: it cannot be read.
        RefusedError: it is neither, but GGUF or a LoRA adapter.

    """
    checkpoint = _verifier_or_drafter(source)
    view = View(source, checkpoint.config, checkpoint.tensors)
    drafts = any(name in checkpoint.tensors for name in ("fc.weight", "mask_hidden", "model.fc.weight"))
    if drafts or candidates(view) or "speculators_model_type" in checkpoint.config:
        return None
    try:
        return verifier_view(checkpoint.root.resolve().name, checkpoint.config)
    except SourceError:
        return None


def own_head(source: str) -> str | None:
    """Return what a verifier with a drafter among its own tensors is and how vLLM serves it; None for any other.

    Raises:
        SourceError: it cannot be read.

    """
    from spectool.dialects.recognised import recognise  # noqa: PLC0415 - validates the whole table

    checkpoint = _verifier_or_drafter(source)
    found = recognise(View(source, checkpoint.config, checkpoint.tensors))
    if found is None or not found.name.endswith("-in-target"):
        return None
    return f"{found.title}: {(found.instead or '').replace('FOLDER', source)}"


def _verifier_or_drafter(source: str) -> Checkpoint:
    ref = reference(source)
    if ref is None:
        _refuse_foreign(_names_in(Path(source)))
        return open_checkpoint(Path(source), need_weights=False)
    from spectool.hub.mirror import mirror_of  # noqa: PLC0415 - imported where needed: start-up stays quick
    from spectool.hub.open import open_any  # noqa: PLC0415 - as above

    _refuse_foreign(mirror_of(ref).repository.top)
    return open_any(ref)


def tokenizers_agree(drafter: Path, verifier: Path | None) -> bool | None:
    """Whether two folders' tokenizers map the same tokens to the same ids; None when one of them has none.

    By content: the same vocabulary in another spelling, or with other special-token settings, agrees. A tokenizer that
    is not fetched (10 MB of a repository, for one rule) is not compared.
    """
    paths = [folder / TOKENIZER for folder in (drafter, verifier) if folder is not None]
    if len(paths) < 2 or not all(path.is_file() for path in paths):
        return None
    try:
        texts = [read_small(path, _MOST_TOKENIZER_BYTES) for path in paths]
        if texts[0] == texts[1]:
            return True
        vocabularies = [_vocabulary(json.loads(text)) for text in texts]
    except (SourceError, ValueError, RecursionError):
        return None
    return bool(vocabularies[0] == vocabularies[1])


def _vocabulary(tokenizer: Any) -> Any:
    model = tokenizer.get("model", {}) if isinstance(tokenizer, dict) else {}
    added = tokenizer.get("added_tokens") or [] if isinstance(tokenizer, dict) else []
    return model.get("vocab"), {item.get("content"): item.get("id") for item in added if isinstance(item, dict)}


def recorded_answers(checkpoint: Checkpoint, *, prove: bool = False) -> tuple[dict[str, Any], str | None]:
    """Return what a conversion's record settles about its own output, and why it counts for nothing, if so.

    Only while the record fits the folder (`spectool.record.settled`); `prove` reads the weights whole for that.
    """
    if not (checkpoint.root / RECORD).is_file():
        return {}, None
    from spectool.record.settled import settled_by_record  # noqa: PLC0415 - it builds many models

    return settled_by_record(checkpoint, prove=prove)
