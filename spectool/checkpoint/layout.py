"""Which weight files an output has, what each begins with, and which names the other files may have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spectool.checkpoint.content import Content, FileRange
from spectool.checkpoint.copying import BLOCK_BYTES
from spectool.checkpoint.entries import DTYPE_BITS
from spectool.checkpoint.folder import INDEX_NAME, WEIGHTS_NAME
from spectool.checkpoint.header import encode_header
from spectool.errors import OutputError

_WORTH_PADDING = 2**22  # bytes copied, for up to 64 KiB of spaces


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """One tensor to be written; `content.nbytes` must be dtype x shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    content: Content


@dataclass(frozen=True, slots=True)
class Shard:
    """One weight file: its first bytes, and the tensors that follow in this order."""

    name: str
    header: bytes
    tensors: Sequence[OutputTensor]

    @property
    def data_bytes(self) -> int:
        """Bytes of the tensors together."""
        return sum(tensor.content.nbytes for tensor in self.tensors)

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return len(self.header) + self.data_bytes


def plan_shards(tensors: Sequence[OutputTensor], shard_bytes: int, metadata: Mapping[str, str]) -> tuple[Shard, ...]:
    """Distribute tensors over files by name: one file, or as many as `shard_bytes` (bytes of tensors) demands.

    Raises:
        OutputError: a name occurs twice or cannot be used, or a dtype, shape and content do not go together.
        ValueError: `shard_bytes` is not positive.

    """
    if shard_bytes <= 0:
        raise ValueError(f"a shard cannot have {shard_bytes} bytes")
    groups: list[list[OutputTensor]] = [[]]
    size = 0
    for tensor in sorted(tensors, key=lambda tensor: tensor.name):
        nbytes = tensor.content.nbytes
        if groups[-1] and size + nbytes > shard_bytes:
            groups.append([])
            size = 0
        groups[-1].append(tensor)
        size += nbytes
    names = [WEIGHTS_NAME]
    if len(groups) > 1:
        names = [f"model-{number:05d}-of-{len(groups):05d}.safetensors" for number in range(1, len(groups) + 1)]
    shards = []
    for name, group in zip(names, groups, strict=True):
        # Wide dtypes first, as the format's own writer does: every tensor is then aligned to its elements.
        group.sort(key=lambda tensor: (-DTYPE_BITS.get(tensor.dtype, 0), tensor.name))
        entries = [(tensor.name, tensor.dtype, tensor.shape, tensor.content.nbytes) for tensor in group]
        header = encode_header(entries, metadata, data_start=_like_the_source(group))
        shards.append(Shard(name, header, tuple(group)))
    return tuple(shards)


def _like_the_source(tensors: Sequence[OutputTensor]) -> tuple[int, int]:
    """Return where the data section should begin (remainder, modulus), so that most bytes lie as in their source file.

    The kernel copies such bytes fast, and file systems that can share blocks between files share them.
    """
    found: Counter[int] = Counter()
    offset = 0
    for tensor in tensors:
        if isinstance(tensor.content, FileRange):
            found[(tensor.content.start - offset) % BLOCK_BYTES] += tensor.content.nbytes
        offset += tensor.content.nbytes
    nbytes, remainder = max(((nbytes, -remainder) for remainder, nbytes in found.items()), default=(0, 0))
    if nbytes < _WORTH_PADDING or remainder % 8:
        return (0, 8)
    return (-remainder, BLOCK_BYTES)


def encode_index(shards: Sequence[Shard]) -> dict[str, bytes]:
    """Return the index file by name; nothing when there is one weight file.

    Raises:
        OutputError: two shards have a tensor of the same name.

    """
    if len(shards) == 1:
        return {}
    weight_map = {tensor.name: shard.name for shard in shards for tensor in shard.tensors}
    if len(weight_map) < sum(len(shard.tensors) for shard in shards):
        raise OutputError("two output tensors have the same name")
    document = {"metadata": {"total_size": sum(shard.data_bytes for shard in shards)}, "weight_map": weight_map}
    return {INDEX_NAME: (json.dumps(document, indent=2, sort_keys=True) + "\n").encode("utf-8")}


def check_names(taken: Iterable[str], names: Iterable[str]) -> None:
    """Raise `OutputError` unless all names are plain file names, new, and none a reader would take for weights."""
    seen = set(taken)
    for name in names:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise OutputError(f"{name!r} cannot be the name of a file in the output")
        if name in seen or name == INDEX_NAME or name.endswith(".safetensors"):
            raise OutputError(f"{name}: is, or would pass for, another file of the output")
        seen.add(name)
