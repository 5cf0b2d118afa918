from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from checkpoints import safetensors_bytes, write_safetensors
from safetensors import SafetensorError, deserialize

from spectool.checkpoint.entries import DTYPE_BITS
from spectool.checkpoint.header import encode_header, read_header
from spectool.errors import OutputError, SourceError

# The oracle here is the newest safetensors: older releases know fewer dtypes, and read none of half a byte.
OLD = tuple(map(int, version("safetensors").split(".")[:2])) < (0, 8)

OK: dict[str, Any] = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


def entry(**changes: Any) -> bytes:
    return json.dumps({"w": OK | changes}).encode()


def test_header_says_where_each_tensor_lies(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    tensors = {"b": ("BF16", (2, 3), b"abcdefghijkl"), "a": ("I64", (), b"12345678"), "none": ("F32", (0, 7), b"")}
    write_safetensors(file, tensors, {"format": "pt"})
    header = read_header(file)
    assert header.metadata == {"format": "pt"}
    assert list(header.tensors) == ["b", "a", "none"]
    raw = file.read_bytes()
    assert header.data_start == 8 + int.from_bytes(raw[:8], "little")
    for name, (dtype, shape, data) in tensors.items():
        tensor = header.tensors[name]
        assert (tensor.name, tensor.dtype, tensor.shape, tensor.file) == (name, dtype, shape, file)
        assert raw[tensor.start : tensor.start + tensor.nbytes] == data


@pytest.mark.skipif(OLD, reason="an older safetensors is another oracle")
def test_dtypes_are_those_of_the_installed_safetensors() -> None:
    with pytest.raises(SafetensorError) as refused:
        deserialize(safetensors_bytes(entry(dtype="no such"), b"1234"))
    listed = str(refused.value).partition("expected one of ")[2].partition(" at line")[0]
    assert {name.strip("` ") for name in listed.split(",")} == set(DTYPE_BITS)
    for dtype, bits in DTYPE_BITS.items():
        data = bytes(bits)  # 8 elements
        deserialize(safetensors_bytes(entry(dtype=dtype, shape=[8], data_offsets=[0, bits]), data))


# Header, data, and what the message must hold; the `safetensors` package refuses the same.
REFUSED_BY_BOTH: dict[str, tuple[bytes, bytes, str]] = {
    "no JSON": (b'{"w":', b"", "line 1, column 6"),
    "cut-off text": (b'{"w', b"", "not valid JSON"),
    "a list": (b"[]", b"", "must begin with"),
    "empty": (b"", b"", "must begin with"),
    "not UTF-8": (b'{"\xff":1}', b"", "not UTF-8 at byte 10"),
    "byte order mark": (b"\xef\xbb\xbf{}", b"", "must begin with"),
    "text after the object": (b"{}x", b"", "line 1, column 3"),
    "padding with NUL": (b"{}\0\0", b"", "line 1, column 3"),
    "half a surrogate pair": (b'{"\\ud800":' + entry()[6:], b"1234", "surrogate"),
    "control character": (b'{"a\nb":1}', b"", "control character"),
    "NaN": (b'{"w":NaN}', b"", "NaN is not JSON"),
    "metadata not an object": (b'{"__metadata__":["a"]}', b"", "__metadata__"),
    "metadata with a number": (b'{"__metadata__":{"a":1}}', b"", "__metadata__"),
    "two metadata": (b'{"__metadata__":{},"__metadata__":{}}', b"", "'__metadata__' occurs twice"),
    "a key twice in an entry": (entry()[:-2] + b',"shape":[4]}}', b"1234", "'shape' occurs twice"),
    "entry is null": (b'{"w":null}', b"", "tensor 'w'"),
    "no shape": (b'{"w":{"dtype":"U8","data_offsets":[0,4]}}', b"1234", "tensor 'w'"),
    "dtype in lower case": (entry(dtype="u8"), b"1234", "unknown dtype 'u8'"),
    "dtype a number": (entry(dtype=8), b"1234", "unknown dtype 8"),
    "shape a number": (entry(shape=4), b"1234", "shape must be a list"),
    "shape of floats": (entry(shape=[4.0]), b"1234", r"found \[4.0\]"),
    "shape with an exponent": (entry().replace(b"[4]", b"[4e0]"), b"1234", "shape must be a list"),
    "shape of booleans": (entry(shape=[True, 4]), b"1234", r"found \[True, 4\]"),
    "shape of texts": (entry(shape=["4"]), b"1234", "shape must be a list"),
    "negative shape": (entry(shape=[-2, -2]), b"1234", r"found \[-2, -2\]"),
    "minus zero": (entry(shape=[4]).replace(b"[0, 4]", b"[-0, 4]"), b"1234", "data_offsets must be"),
    "shape of 2**64": (entry(shape=[2**64, 0], data_offsets=[0, 0]), b"", "shape must be a list"),
    "shape of 5000 digits": (entry().replace(b"[4]", b"[" + b"9" * 5000 + b"]"), b"1234", "5000 digits"),
    "product over 2**64": (entry(shape=[2**63, 4, 0], data_offsets=[0, 0]), b"", "not below 2\\*\\*64"),
    "bits over 2**64": (entry(dtype="F64", shape=[2**60], data_offsets=[0, 0]), b"", "not below 2\\*\\*64"),
    "three offsets": (entry(data_offsets=[0, 4, 4]), b"1234", "two byte offsets"),
    "one offset": (entry(data_offsets=[4]), b"1234", "two byte offsets"),
    "offsets the wrong way": (entry(data_offsets=[4, 0]), b"1234", "needs 4 bytes; data_offsets give -4"),
    "too few bytes for the shape": (entry(shape=[5]), b"1234", "needs 5 bytes; data_offsets give 4"),
    "too many bytes for the shape": (entry(shape=[3]), b"1234", "needs 3 bytes; data_offsets give 4"),
    "half a byte": (entry(dtype="F4", shape=[3], data_offsets=[0, 2]), b"12", "no whole number of bytes"),
    "three quarters": (entry(dtype="F6_E2M3", shape=[1], data_offsets=[0, 1]), b"1", "no whole number of bytes"),
    "data cut off": (entry(), b"123", "describes 4 bytes of data; the file has 3"),
    "data left over": (entry(), b"12345", "describes 4 bytes of data; the file has 5"),
    "data without tensors": (b"{}", b"1", "describes 0 bytes of data; the file has 1"),
    "hole at the start": (entry(data_offsets=[1, 5]), b"12345", "hole: they begin at 1, those before end at 0"),
    "hole between": (
        json.dumps({"a": OK, "b": OK | {"data_offsets": [5, 9]}}).encode(),
        b"123456789",
        "tensor 'b': its bytes leave a hole: they begin at 5, those before end at 4",
    ),
    "overlap": (
        json.dumps({"a": OK, "b": OK | {"data_offsets": [3, 7]}}).encode(),
        b"1234567",
        "tensor 'b': its bytes overlap another tensor's: they begin at 3, those before end at 4",
    ),
    "same range twice": (json.dumps({"a": OK, "b": OK}).encode(), b"1234", "overlap"),
    "empty tensor inside another": (
        json.dumps({"a": OK, "none": OK | {"shape": [0], "data_offsets": [2, 2]}}).encode(),
        b"1234",
        "overlap|hole",
    ),
}

# The package lets these pass; listed in the module's docstring.
REFUSED_BY_US: dict[str, tuple[bytes, bytes, str]] = {
    "white space before": (b"  " + entry(), b"1234", "must begin with"),
    "a tensor twice": (entry()[:-1] + b"," + entry()[1:], b"1234", "'w' occurs twice"),
    "a tensor twice, one escaped": (entry()[:-1] + b',"\\u0077"' + entry()[4:], b"1234", "'w' occurs twice"),
    "a metadata key twice": (b'{"__metadata__":{"a":"1","a":"2"}}', b"", "'a' occurs twice"),
    "unknown key": (entry(x=1), b"1234", "exactly the keys"),
    "entry as a list": (b'{"w":["U8",[4],[0,4]]}', b"1234", "exactly the keys"),
    "dtype as an object": (entry(dtype={"U8": None}), b"1234", "unknown dtype"),
    "metadata null": (b'{"__metadata__":null}', b"", "__metadata__"),
    "NUL in a name": (entry().replace(b'"w"', b'"w\\u0000"'), b"1234", "NUL"),
    "name of 4097 bytes": (entry().replace(b'"w"', b'"' + b"w" * 4097 + b'"'), b"1234", "4096 bytes"),
}

ACCEPTED: dict[str, tuple[bytes, bytes]] = {
    "plain": (entry(), b"1234"),
    "nothing": (b"{}", b""),
    "padded": (b"{}   \n\t\r ", b""),
    "metadata only": (b'{"__metadata__":{"format":"pt"}}', b""),
    "scalar": (entry(shape=[], data_offsets=[0, 1]), b"1"),
    "data order is not name order": (
        json.dumps({"b": OK | {"data_offsets": [4, 8]}, "a": OK}).encode(),
        b"12345678",
    ),
    "empty tensor before": (
        json.dumps({"a": OK, "none": OK | {"shape": [0], "data_offsets": [0, 0]}}).encode(),
        b"1234",
    ),
    "empty tensor after": (
        json.dumps({"none": OK | {"shape": [0], "data_offsets": [4, 4]}, "a": OK}).encode(),
        b"1234",
    ),
    "zero saves what follows it": (entry(shape=[0, 2**63, 4], data_offsets=[0, 0]), b""),
    "two halves make a byte": (entry(dtype="F4", shape=[2], data_offsets=[0, 1]), b"1"),
    "four sixes make three bytes": (entry(dtype="F6_E3M2", shape=[2, 2], data_offsets=[0, 3]), b"123"),
    "not aligned": (
        json.dumps(
            {
                "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                "b": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]},
            }
        ).encode(),
        b"12345",
    ),
    "empty name": (entry().replace(b'"w"', b'""'), b"1234"),
    "name of 4096 bytes": (entry().replace(b'"w"', b'"' + b"w" * 4096 + b'"'), b"1234"),
    "name outside the basic plane": (entry().replace(b'"w"', b'"\\ud83d\\ude00"'), b"1234"),
}


@pytest.mark.parametrize("case", REFUSED_BY_BOTH)
def test_malformed_headers_are_refused_as_safetensors_does(case: str, tmp_path: Path) -> None:
    header, data, message = REFUSED_BY_BOTH[case]
    raw = safetensors_bytes(header, data)
    with pytest.raises(SafetensorError):
        deserialize(raw)
    file = tmp_path / "bad.safetensors"
    file.write_bytes(raw)
    with pytest.raises(SourceError, match=message) as refused:
        read_header(file)
    assert refused.value.message.startswith(str(file))


@pytest.mark.parametrize("case", REFUSED_BY_US)
def test_ambiguous_headers_are_refused_beyond_safetensors(case: str, tmp_path: Path) -> None:
    header, data, message = REFUSED_BY_US[case]
    raw = safetensors_bytes(header, data)
    deserialize(raw)
    file = tmp_path / "bad.safetensors"
    file.write_bytes(raw)
    with pytest.raises(SourceError, match=message):
        read_header(file)


@pytest.mark.skipif(OLD, reason="an older safetensors is another oracle")
@pytest.mark.parametrize("case", ACCEPTED)
def test_unusual_headers_are_accepted_as_safetensors_does(case: str, tmp_path: Path) -> None:
    header, data = ACCEPTED[case]
    raw = safetensors_bytes(header, data)
    file = tmp_path / "good.safetensors"
    file.write_bytes(raw)
    expected = {name: (t["dtype"], tuple(t["shape"]), bytes(t["data"])) for name, t in deserialize(raw)}
    found = {t.name: (t.dtype, t.shape, raw[t.start : t.start + t.nbytes]) for t in read_header(file).tensors.values()}
    assert found == expected


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "0 bytes are too few"),
        (b"1234567", "7 bytes are too few"),
        (bytes(8), "must begin with"),
        ((100_000_001).to_bytes(8, "little") + b"{}", "claims 100000001 bytes; the format allows 100000000"),
        ((100_000_000).to_bytes(8, "little") + b"{}", "claims 100000000 bytes; 2 follow"),
        ((2**64 - 1).to_bytes(8, "little") + b"{}", "the format allows"),
        ((3).to_bytes(8, "little") + b"{}", "claims 3 bytes; 2 follow"),
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS"),
    ],
)
def test_lengths_are_checked_before_anything_is_read(raw: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.safetensors"
    file.write_bytes(raw)
    with pytest.raises(SafetensorError):
        deserialize(raw)
    with pytest.raises(SourceError, match=message):
        read_header(file)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    for name in ("fifo.safetensors", "folder.safetensors"):
        with pytest.raises(SourceError, match="not a regular file"):
            read_header(tmp_path / name)
    with pytest.raises(SourceError, match="no such file"):
        read_header(tmp_path / "absent.safetensors")


def test_encoded_header_is_aligned_and_read_by_safetensors(tmp_path: Path) -> None:
    for length in range(1, 10):  # every padding
        name = "n" * length
        head = encode_header([(name, "U8", (3,), 3), ("é", "F16", (1, 1), 2)], {"format": "pt"})
        assert len(head) % 8 == 0
        raw = head + b"12345"
        assert {n: bytes(t["data"]) for n, t in deserialize(raw)} == {name: b"123", "é": b"45"}
        file = tmp_path / "m.safetensors"
        file.write_bytes(raw)
        assert read_header(file).metadata == {"format": "pt"}
    assert b"__metadata__" not in encode_header([], {})


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([("a", "U8", (1,), 1), ("a", "U8", (1,), 1)], "'a': the name is taken"),
        ([("__metadata__", "U8", (1,), 1)], "taken"),
        ([("a\0", "U8", (1,), 1)], "NUL"),
        ([("a", "U9", (1,), 1)], "unknown dtype 'U9'"),
        ([("a", "BF16", (2, 3), 11)], r"BF16 x \[2, 3\] needs 12 bytes; its content has 11"),
        ([("a", "F4", (3,), 2)], "needs None bytes"),
    ],
)
def test_a_header_that_would_be_refused_is_not_encoded(tensors: list[Any], message: str) -> None:
    with pytest.raises(OutputError, match=message):
        encode_header(tensors, {"format": "pt"})
