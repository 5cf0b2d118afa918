"""Weights in PyTorch's own format (`.bin`, `.pt`, `.pth`): where each tensor's bytes lie in the file.

Such a file is a zip archive: a pickle that describes the tensors, and their storages as records, stored as they are.
torch reads the description with `weights_only`, which builds tensors and plain containers and runs nothing else, onto
its `meta` device, which holds no data. What it says of each storage (`_checkpoint_offset`: where its record begins) is
held against the archive's own directory. From there on such a tensor is a range of a file like any other, and memory
does not grow with the checkpoint.

torch is imported here and nowhere else, and only for such a file.
"""

from __future__ import annotations

import struct
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spectool.checkpoint.entries import MAX_NAME_BYTES, TensorInfo
from spectool.errors import SourceError

MAX_DESCRIPTION_BYTES = 2**26
"""Of the pickle and all other records that are no tensor data, each; the largest public ones have a few megabytes."""

_DTYPES = {
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
_LOCAL_HEADER = struct.Struct("<26xHH")  # of a zip record: lengths of its name and its extra field end it


class TorchMissingError(SourceError):
    """torch is not installed beside spectool."""


def read_pickled_tensors(file: Path) -> dict[str, TensorInfo]:
    """Return the tensors of a state dict by name; no tensor is read.

    Raises:
        SourceError: torch is not installed; the file cannot be read, is no state dict, or holds anything but tensors.

    """
    value = read_pickle(file)
    if not isinstance(value, dict) or not value:
        raise SourceError(f"{file}: holds {_kind(value)}, not tensors by name")
    for name, item in value.items():
        if not isinstance(name, str) or not isinstance(item, TensorInfo):
            raise SourceError(
                f"{file}: holds {_kind(item)} under {str(name)[:80]!r}, where only tensors are expected",
                hint="This looks like a training checkpoint. Save the model's state dict alone.",
            )
        if not name or "\0" in name or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
            raise SourceError(f"{file}: {name[:80]!r} is no name for a tensor")
    return value


def read_pickle(file: Path) -> Any:
    """Return a file's containers, texts and numbers, with a `TensorInfo` for every tensor (its name where it stands).

    Raises:
        SourceError: torch is not installed, the file cannot be read or is not in torch's zip format, it holds objects
            that `weights_only` does not build, or a tensor is not stored in one piece.

    """
    records = _records(file)
    torch = _torch(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = torch.load(file, map_location="meta", weights_only=True)
    except Exception as error:  # noqa: BLE001 - torch raises what it likes: UnpicklingError, RuntimeError, KeyError
        raise SourceError(
            f"{file}: torch does not read it as weights alone ({type(error).__name__}); nothing in it was run",
            hint="A file with other objects than tensors can run code when it is loaded. Ask for safetensors.",
        ) from None
    return _Walk(file, records, torch).of(value, "")


class _Walk:
    """From torch's meta tensors to ranges of the file."""

    def __init__(self, file: Path, records: Mapping[int, int], torch: Any) -> None:
        self._file = file
        self._records = records
        self._torch = torch
        self._depth = 0

    def of(self, value: Any, name: str) -> Any:
        if isinstance(value, self._torch.Tensor):
            return self._tensor(value, name)
        if self._depth > 50:
            raise SourceError(f"{self._file}: containers are nested too deeply")
        self._depth += 1
        try:
            if isinstance(value, dict):
                return {key: self.of(item, key if isinstance(key, str) else name) for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [self.of(item, name) for item in value]
        finally:
            self._depth -= 1
        if value is None or isinstance(value, str | int | float | bool):
            return value
        return _Other(type(value).__name__)

    def _tensor(self, tensor: Any, name: str) -> TensorInfo:
        where = f"{self._file}: tensor {name!r}"
        dtype = _DTYPES.get(str(tensor.dtype).removeprefix("torch."))
        if dtype is None:
            raise SourceError(f"{where} has dtype {tensor.dtype}, which safetensors has not")
        if tensor.layout is not self._torch.strided or not tensor.is_contiguous():
            raise SourceError(
                f"{where} is not stored row by row", hint="Save it again as tensor.contiguous(), or as safetensors."
            )
        size = tensor.element_size()
        nbytes = tensor.numel() * size
        if not nbytes:
            return TensorInfo(name, dtype, tuple(tensor.shape), self._file, 0, 0)
        begin = getattr(tensor.untyped_storage(), "_checkpoint_offset", None)
        if begin is None:
            raise SourceError(
                f"{self._file}: this torch ({self._torch.__version__}) does not say where tensors lie",
                hint="Install a newer torch beside spectool, or convert the file to safetensors.",
            )
        start = tensor.storage_offset() * size
        if begin not in self._records or start + nbytes > self._records[begin]:
            raise SourceError(f"{where} lies outside the archive's records: the file is damaged")
        return TensorInfo(name, dtype, tuple(tensor.shape), self._file, begin + start, nbytes)


class _Other:
    """Something that is neither a container nor a plain value; named in errors."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def _kind(value: object) -> str:
    return value.kind if isinstance(value, _Other) else f"a {type(value).__name__}"


def _records(file: Path) -> dict[int, int]:
    """Return the data records of the archive: where each begins in the file, and its size in bytes."""
    with _archive(file) as archive, file.open("rb") as stream:
        found: dict[int, int] = {}
        described = False
        for info in archive.infolist():
            folder, _, last = info.filename.rpartition("/")
            if folder.rpartition("/")[2] == "data":
                if info.compress_type != zipfile.ZIP_STORED:
                    raise SourceError(f"{file}: {info.filename!r} is compressed; torch writes tensors as they are")
                stream.seek(info.header_offset)
                name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
                found[info.header_offset + _LOCAL_HEADER.size + name + extra] = info.file_size
            elif info.file_size > MAX_DESCRIPTION_BYTES:
                raise SourceError(
                    f"{file}: {info.filename!r} claims {info.file_size} bytes; no description has as many"
                )
            elif last == "byteorder" and archive.read(info) != b"little":
                raise SourceError(
                    f"{file}: was written on a big-endian machine", hint="Convert it to safetensors there."
                )
            described = described or last == "data.pkl"
    if not described:
        raise SourceError(f"{file}: a zip archive, but none of torch's")
    return found


@contextmanager
def _archive(file: Path) -> Iterator[zipfile.ZipFile]:
    try:
        if not file.is_file():
            raise SourceError(f"{file}: {'not a regular file' if file.exists() else 'no such file'}")
        with zipfile.ZipFile(file) as archive:
            yield archive
    except OSError as error:
        raise SourceError(f"{file}: cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, struct.error, ValueError, EOFError) as error:
        raise SourceError(
            f"{file}: not in torch's zip format ({error})",
            hint="It is damaged, or older than torch 1.6: load it with weights_only=True and save it again.",
        ) from None


def _torch(file: Path) -> Any:
    try:
        import torch  # noqa: PLC0415 - seconds, and only for such a file
    except ImportError:
        raise TorchMissingError(
            f"{file}: reading this format needs torch, which is not installed beside spectool",
            hint="pip install 'spectool[torch]' (or any torch >= 2.6), or convert the file to safetensors.",
        ) from None
    return torch
