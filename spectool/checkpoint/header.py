"""The header of a safetensors file: read it with nothing taken on trust, and write it.

A file is an 8-byte little-endian length, a JSON object of that length, and the data section the object describes. The
checks are those of the `safetensors` reader (0.8): a header read here is one the engine's loader takes too. Some that
reader lets pass are refused as well, because readers of other languages disagree about them or nothing writes them:
white space before the `{`, duplicate keys, unknown keys in an entry, an entry given as a list, a dtype as an object,
`__metadata__: null`, names with a NUL or of more than 4096 bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from spectool.checkpoint import partial
from spectool.checkpoint.entries import DTYPE_BITS, MAX_NAME_BYTES, TensorInfo, read_entries, tensor_nbytes
from spectool.checkpoint.json_text import check_depth, parse_json
from spectool.errors import OutputError, SourceError

MAX_HEADER_BYTES = 100_000_000
_LENGTH_BYTES = 8
_POINTER = b"version "
"""How a pointer of Git LFS begins, which a clone without LFS leaves in place of a file. No header has this length."""


@dataclass(frozen=True, slots=True)
class FileHeader:
    """What a safetensors file says of itself."""

    file: Path
    metadata: Mapping[str, str]
    tensors: Mapping[str, TensorInfo]
    """By name, in the order of the data."""
    data_start: int
    """Byte offset of the data section in the file."""


def read_header(file: Path) -> FileHeader:
    """Read and check the header of a safetensors file; no tensor is read.

    Raises:
        SourceError: the file cannot be read, or its header is malformed, names an unknown dtype, or describes data that
            does not fill the rest of the file exactly, in ranges without overlap or hole.

    """
    try:
        if not file.is_file():
            raise SourceError(f"{file}: {'not a regular file' if file.exists() else 'no such file'}")
        with file.open("rb", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            partial.ensure(file, 0, min(size, _LENGTH_BYTES))
            text = _header_text(file, size, stream.read(_LENGTH_BYTES), stream.read)
    except OSError as error:
        raise SourceError(f"{file}: cannot be read: {error.strerror or error}") from error
    document = parse_json(text, f"{file}: header", parse_int=_size, depth=False)
    data_start = _LENGTH_BYTES + len(text.encode("utf-8"))
    metadata = document.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise SourceError(f"{file}: __metadata__ must be an object of texts")
    try:
        tensors = read_entries(file, document, data_start)
    except (SourceError, RecursionError):
        check_depth(document, f"{file}: header")  # said first; an entry that is right has two levels and no more
        raise
    tensors.sort(key=attrgetter("start", "nbytes"))
    _check_cover(file, tensors, data_start, size)
    return FileHeader(file, metadata, {tensor.name: tensor for tensor in tensors}, data_start)


def _header_text(file: Path, size: int, length_bytes: bytes, read: Any) -> str:
    if len(length_bytes) < _LENGTH_BYTES:
        raise SourceError(f"{file}: {size} bytes are too few for a safetensors file")
    length = int.from_bytes(length_bytes, "little")
    if length_bytes == _POINTER:
        raise SourceError(
            f"{file}: is a pointer of Git LFS, not the weights themselves",
            hint="Fetch them: git lfs pull in that folder, or hf download ORG/NAME --local-dir FOLDER.",
        )
    if length > MAX_HEADER_BYTES:
        raise SourceError(
            f"{file}: the header claims {length} bytes; the format allows {MAX_HEADER_BYTES}",
            hint="This is no safetensors file, or it is damaged. Download it again.",
        )
    if length > size - _LENGTH_BYTES:
        raise SourceError(
            f"{file}: the header claims {length} bytes; {size - _LENGTH_BYTES} follow in the file",
            hint="The file was cut off. Download it again.",
        )
    partial.ensure(file, _LENGTH_BYTES, length, limit=partial.MAX_SMALL)
    raw = bytearray()
    while len(raw) < length and (part := read(length - len(raw))):
        raw += part
    if len(raw) < length:
        raise SourceError(f"{file}: shrank while its header was read ({len(raw)} of {length} bytes)")
    if raw[:1] != b"{":
        raise SourceError(f"{file}: the header must begin with '{{', not {bytes(raw[:1])!r}")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"{file}: the header is not UTF-8 at byte {_LENGTH_BYTES + error.start}") from None


def _size(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("sizes and offsets have 64 bits")
    # "-0" is a number below zero to serde, and 0 to Python.
    return int(digits) or (-1 if digits.startswith("-") else 0)


def _check_cover(file: Path, tensors: Sequence[TensorInfo], data_start: int, size: int) -> None:
    position = data_start
    for tensor in tensors:
        if tensor.start != position:
            what = "leave a hole" if tensor.start > position else "overlap another tensor's"
            raise SourceError(
                f"{file}: tensor {tensor.name!r}: its bytes {what}: "
                f"they begin at {tensor.start - data_start}, those before end at {position - data_start}"
            )
        position += tensor.nbytes
    if position != size:
        raise SourceError(
            f"{file}: the header describes {position - data_start} bytes of data; the file has {size - data_start}",
            hint="The file was cut off or is damaged. Download it again." if position > size else None,
        )


def encode_header(
    tensors: Sequence[tuple[str, str, tuple[int, ...], int]],
    metadata: Mapping[str, str],
    *,
    data_start: tuple[int, int] = (0, 8),
) -> bytes:
    """Return the first bytes of a safetensors file: length and JSON, padded so that the data section is 8-byte aligned.

    Args:
        tensors: name, dtype, shape and nbytes, in the order of the data.
        metadata: the file's `__metadata__`; left out when empty.
        data_start: remainder and modulus, both multiples of 8; spaces pad the JSON until the data section begins there.

    Raises:
        OutputError: a name occurs twice or cannot be used, a dtype is unknown, nbytes is not dtype x shape, or the
            header is longer than the format allows.

    """
    document: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    begin = 0
    for name, dtype, shape, nbytes in tensors:
        if name in document or name == "__metadata__":
            raise OutputError(f"tensor {name!r}: the name is taken")
        if "\0" in name or (4 * len(name) > MAX_NAME_BYTES and len(name.encode("utf-8")) > MAX_NAME_BYTES):
            raise OutputError(f"tensor name {name[:80]!r} holds a NUL or is longer than {MAX_NAME_BYTES} bytes")
        if dtype not in DTYPE_BITS:
            raise OutputError(f"tensor {name!r}: unknown dtype {dtype!r}")
        needed = tensor_nbytes(dtype, shape)
        if needed != nbytes:
            raise OutputError(
                f"tensor {name!r}: {dtype} x {list(shape)} needs {needed} bytes; its content has {nbytes}"
            )
        document[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, begin + nbytes]}
        begin += nbytes
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    remainder, modulus = data_start
    text += b" " * ((remainder - _LENGTH_BYTES - len(text)) % modulus)
    if len(text) > MAX_HEADER_BYTES:
        raise OutputError(f"the header would have {len(text)} bytes; the format allows {MAX_HEADER_BYTES}")
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text
