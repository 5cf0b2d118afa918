"""Headers against the `safetensors` package: the same verdict for whatever is thrown at both."""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from checkpoints import safetensors_bytes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize

from spectool.checkpoint.entries import DTYPE_BITS
from spectool.checkpoint.header import encode_header, read_header
from spectool.errors import SourceError

# The oracle here is the newest safetensors: older releases know fewer dtypes, and read none of half a byte.
OLD = tuple(map(int, version("safetensors").split(".")[:2])) < (0, 8)

Found = dict[str, tuple[str, tuple[int, ...], bytes]]

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@st.composite
def tensor_sets(draw: st.DrawFn) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    result = []
    for name in draw(st.lists(names.filter(lambda name: name != "__metadata__"), unique=True, max_size=5)):
        dtype = draw(st.sampled_from(sorted(DTYPE_BITS)))
        # 4 elements in the last axis make whole bytes of every dtype.
        shape = (*draw(st.lists(st.integers(0, 3), max_size=3)), 4)
        count = 1
        for size in shape:
            count *= size
        nbytes = count * DTYPE_BITS[dtype] // 8
        result.append((name, dtype, shape, draw(st.binary(min_size=nbytes, max_size=nbytes))))
    return result


def theirs(raw: bytes) -> Found | None:
    try:
        return {name: (t["dtype"], tuple(t["shape"]), bytes(t["data"])) for name, t in deserialize(raw)}
    except SafetensorError:
        return None


def ours(raw: bytes) -> Found | None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "m.safetensors"
        file.write_bytes(raw)
        try:
            header = read_header(file)
        except SourceError:
            return None
    return {
        name: (tensor.dtype, tensor.shape, raw[tensor.start : tensor.start + tensor.nbytes])
        for name, tensor in header.tensors.items()
    }


@pytest.mark.skipif(OLD, reason="an older safetensors is another oracle")
@given(tensor_sets(), st.dictionaries(names, names, max_size=3))
@settings(deadline=None)  # files are written; a busy disk is no failure
def test_what_is_encoded_is_read_back_by_both(
    tensors: list[tuple[str, str, tuple[int, ...], bytes]], metadata: dict[str, str]
) -> None:
    head = encode_header([(name, dtype, shape, len(data)) for name, dtype, shape, data in tensors], metadata)
    raw = head + b"".join(data for *_, data in tensors)
    expected = {name: (dtype, shape, data) for name, dtype, shape, data in tensors}
    assert len(head) % 8 == 0
    assert ours(raw) == expected
    assert theirs(raw) == expected


SIZES = st.one_of(
    st.integers(0, 9),
    st.sampled_from([2**16, 2**32, 2**60, 2**61, 2**63, 2**64 - 1, 2**64, -1, 1.0, 1.5, True, None, "1", [1]]),
)
WELL_FORMED = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "BF16", "F4", "F6_E2M3", "I64"]),
        "shape": st.lists(st.integers(0, 4), max_size=3),
        "data_offsets": st.tuples(st.integers(0, 16), st.integers(0, 16)).map(sorted),
    }
)
ODD = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "BF16", "F4", "F6_E2M3", "u8", "", "F8", 8, None]),
        "shape": st.lists(SIZES, max_size=4),
        "data_offsets": st.lists(SIZES, min_size=1, max_size=3),
    }
)
HEADERS = st.dictionaries(
    st.one_of(st.sampled_from(["a", "b", "__metadata__"]), names), st.one_of(WELL_FORMED, WELL_FORMED, ODD), max_size=4
)


@pytest.mark.skipif(OLD, reason="an older safetensors is another oracle")
@given(HEADERS, st.binary(max_size=40))
@settings(max_examples=250, deadline=None)
def test_same_verdict_on_entries(header: dict[str, Any], data: bytes) -> None:
    raw = safetensors_bytes(json.dumps(header).encode(), data)
    assert ours(raw) == theirs(raw)


def _whole(header: dict[str, Any]) -> bytes:
    return safetensors_bytes(json.dumps(header, separators=(",", ":")).encode(), bytes(range(16)))


BASE = _whole(
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F4", "shape": [2, 8], "data_offsets": [0, 8]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [8, 16]},
    }
)


@pytest.mark.skipif(OLD, reason="an older safetensors is another oracle")
@given(st.integers(0, len(BASE) - 1), st.binary(max_size=3), st.integers(0, 3))
@settings(max_examples=600, deadline=None)
@example(8, b" ", 1)
@example(len(BASE) - 1, b"", 1)
def test_same_verdict_on_damaged_files(at: int, insert: bytes, removed: int) -> None:
    raw = BASE[:at] + insert + BASE[at + removed :]
    expected, found = theirs(raw), ours(raw)
    if found is None and expected is not None:
        assert _is_refused_on_purpose(raw)
    else:
        assert found == expected


def _is_refused_on_purpose(raw: bytes) -> bool:
    """Whether a file `safetensors` reads has one of the faults listed in `spectool.checkpoint.header`."""
    text = raw[8 : 8 + int.from_bytes(raw[:8], "little")]
    objects: list[list[str]] = []
    json.loads(text, object_pairs_hook=lambda pairs: objects.append([key for key, _ in pairs]) or dict(pairs))
    twice = any(len(keys) != len(set(keys)) for keys in objects)
    unknown = any("shape" in keys and set(keys) != {"dtype", "shape", "data_offsets"} for keys in objects)
    nul = any("\0" in key for keys in objects for key in keys)
    return not text.startswith(b"{") or twice or unknown or nul
