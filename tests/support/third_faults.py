# ruff: noqa: E501 - tables: one fault, one line
"""Faults of pairs that `faults`, `boundaries` and `more_faults` show less than three times, and what vLLM makes of them.

Most of these vLLM runs in silence, so each row says what its drafts must look like beside those of the good pair.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boundaries import rows
from checkpoints import write_safetensors
from faults import LAYER
from mutations import VERIFIER, Change, Config, Tensors, both, nothing, put, with_zeros, without

Edit = Callable[[Path], object]
STOPS, SAME, OTHER, APART = "stops", "drafts as the good pair", "drafts otherwise", "shares less with the verifier"

IDS, NATIVE_IDS, EAGLE_IDS = (
    "aux_hidden_state_layer_ids",
    "dflash_config.target_layer_ids",
    "eagle_config.eagle_aux_hidden_state_layer_ids",
)
K = "speculators_config.proposal_methods.0.speculative_tokens"
NAME = "speculators_config.verifier.name_or_path"
THETA, LAYER_THETA = "rope_parameters.rope_theta", f"{LAYER}.rope_parameters.rope_theta"
ROW = 2 * 128


@dataclass(frozen=True)
class Third:
    """One fault: `change` and `files` are made to what `of` names; `also` are codes that speak besides.

    The verifier's change of a pair in which both differ stands in `beside`.
    """

    code: str
    layout: str
    method: str
    what: str
    change: Change
    seen: str
    of: str = "drafter"
    files: Edit | None = None
    also: frozenset[str] = frozenset()
    launch: tuple[str, ...] | None = None
    """Words of a launch, for rules about one."""
    beside: Change | None = None

    @property
    def name(self) -> str:
        return f"third: {self.code} {self.layout} {self.method}, {self.what}"


def N(code: str, method: str, what: str, change: Change, seen: str, *also: str, **more: Any) -> Third:  # noqa: N802 - a table's word
    return Third(code, "native", method, what, change, seen, also=frozenset(also), **more)


def C(code: str, method: str, what: str, change: Change, seen: str, *also: str, **more: Any) -> Third:  # noqa: N802 - a table's word
    return Third(code, "converted", method, what, change, seen, also=frozenset(also), **more)


def write(name: str, place: int, data: bytes) -> Change:
    """Overwrite bytes of a tensor; a negative place counts from its end."""

    def change(config: Config, tensors: Tensors) -> None:
        dtype, shape, old = tensors[name]
        start = place if place >= 0 else len(old) + place
        tensors[name] = (dtype, shape, old[:start] + data + old[start + len(data) :])

    return change


def zero(*names: str) -> Change:
    """Fill tensors with zeros."""

    def change(config: Config, tensors: Tensors) -> None:
        for name in names:
            dtype, shape, old = tensors[name]
            tensors[name] = (dtype, shape, bytes(len(old)))

    return change


def half_heads(prefix: str) -> Change:
    """Say 2 heads of 64 for 4 of 32; norms of q and k, where there are any, are given the values twice."""

    def change(config: Config, tensors: Tensors) -> None:
        for key, value in (("head_dim", 64), ("num_attention_heads", 2), ("num_key_value_heads", 1)):
            put(f"{prefix}{key}", value)(config, tensors)
        for name, (dtype, shape, old) in list(tensors.items()):
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                tensors[name] = (dtype, (2 * shape[0],), old + old)

    return change


def turned(order: tuple[int, ...], *names: str) -> Change:
    """Put the blocks of a tensor's columns, one per aux layer, into another order: the same drafter, stored otherwise."""

    def change(config: Config, tensors: Tensors) -> None:
        for name in names:
            dtype, shape, old = tensors[name]
            row = 2 * shape[-1]
            block = row // len(order)
            lines = [old[start : start + row] for start in range(0, len(old), row)]
            data = b"".join(line[at * block : (at + 1) * block] for line in lines for at in order)
            tensors[name] = (dtype, shape, data)

    return change


def halved(*names: str) -> Change:
    """Store bf16 tensors, or all of them, as float16: the same values but for the smallest."""

    def change(config: Config, tensors: Tensors) -> None:
        for name in names or tuple(tensors):
            _, shape, old = tensors[name]
            values = [struct.unpack("<f", b"\0\0" + old[at : at + 2])[0] for at in range(0, len(old), 2)]
            tensors[name] = ("F16", shape, struct.pack(f"<{len(values)}e", *values))

    return change


def whole(name: str, dtype: str, size: int) -> Change:
    """Let a tensor hold whole numbers of so many bytes: 0 and 1 in turn."""

    def change(config: Config, tensors: Tensors) -> None:
        _, shape, old = tensors[name]
        tensors[name] = (dtype, shape, b"".join((at % 2).to_bytes(size, "little") for at in range(len(old) // 2)))

    return change


def wide(hidden: int) -> Change:
    """Make the verifier so wide, its tensors too."""
    rows_of = ("o_proj.weight", "down_proj.weight", "layernorm.weight", "model.norm.weight")

    def change(config: Config, tensors: Tensors) -> None:
        config["hidden_size"] = hidden
        for name, (_, shape, _) in list(tensors.items()):
            if not name.endswith(("q_norm.weight", "k_norm.weight")):
                wider = (hidden, *shape[1:]) if name.endswith(rows_of) else (shape[0], hidden)
                with_zeros(name, *wider)(config, tensors)

    return change


def larger(count: int) -> Change:
    """Give the verifier so many rows of embedding and head: the good ones, and zeros behind."""

    def change(config: Config, tensors: Tensors) -> None:
        config["vocab_size"] = count
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            kind, (old, width), data = tensors[name]
            tensors[name] = (kind, (count, width), data + bytes(2 * width * (count - old)))

    return change


def tokenizer(edit: Callable[[dict[str, int]], object]) -> Edit:
    """Lay the verifier's tokenizer beside the drafter, its vocabulary edited."""

    def write_it(root: Path) -> None:
        document = json.loads((VERIFIER / "tokenizer.json").read_text(encoding="utf-8"))
        edit(document["model"]["vocab"])
        (root / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")

    return write_it


def swap(vocabulary: dict[str, int]) -> None:
    first, second = sorted(vocabulary, key=vocabulary.__getitem__)[100:102]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]


def shift(vocabulary: dict[str, int]) -> None:
    for token in vocabulary:
        vocabulary[token] += 1


def rename(vocabulary: dict[str, int]) -> None:
    token = max(vocabulary, key=vocabulary.__getitem__)
    vocabulary[f"{token}x"] = vocabulary.pop(token)


def lay(name: str, data: bytes | str) -> Edit:
    """Put a file beside."""
    return lambda root: (root / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def archive() -> bytes:
    """A zip archive as torch.save writes one, without its pickle's content."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("mask_embedding/data.pkl", b"")
    return out.getvalue()


def weights(name: str, tensors: dict[str, Any]) -> Edit:
    """Put a second weight file beside."""
    return lambda root: write_safetensors(root / name, tensors)


def index(**files: str) -> Edit:
    """Put an index beside."""
    mapped = {name.replace("__", "."): file for name, file in files.items()}
    return lay("model.safetensors.index.json", json.dumps({"weight_map": mapped}))


def reduced(key: str, count: int) -> Change:
    """A head of so many rows, and no map."""
    return both(put(key, count), rows("lm_head.weight", count))


def mixed(window: int, layers: int = 6) -> Change:
    """Make the verifier a Llama of alternating layers: what gpt-oss is, without its experts."""

    def change(config: Config, tensors: Tensors) -> None:
        config.update({"architectures": ["LlamaForCausalLM"], "model_type": "gpt_oss", "sliding_window": window})
        config.update(
            {"layer_types": ["sliding_attention", "full_attention"] * (layers // 2), "num_hidden_layers": layers}
        )
        gone = [name for name in tensors if name.endswith(("q_norm.weight", "k_norm.weight"))]
        gone += [name for name in tensors for at in range(layers, 6) if f"layers.{at}." in name]
        without(*set(gone))(config, tensors)

    return change


DOWN, TWO = "layers.1.mlp.down_proj.weight", ["full_attention", "sliding_attention"]
RECORD = "provenance.json"

THIRD_FAULTS: list[Third] = [
    N("ATT003", "peagle", "full before sliding", both(put("layer_types", TWO), put("sliding_window", 16)), STOPS),
    C("ATT003", "peagle", "full before sliding", both(put(f"{LAYER}.layer_types", TWO), put(f"{LAYER}.sliding_window", 16)), STOPS),
    N("AUX003", "peagle", "the last twice", put(EAGLE_IDS, [1, 5, 5]), STOPS),
    N("AUX003", "dspark", "one three times", put("target_layer_ids", [2, 2, 2]), STOPS),
    N("AUX005", "dspark", "the other way round", both(put("target_layer_ids", [4, 2, 0]), turned((2, 1, 0), "fc.weight")), OTHER),
    N("AUX005", "peagle", "two swapped", both(put(EAGLE_IDS, [3, 1, 5]), turned((1, 0, 2), "fc.weight", "mask_hidden")), OTHER),
    N("AUX005", "dflash", "the ids alone turned, and fc not", put(NATIVE_IDS, [2, 4, 0]), SAME),
    N("AUX006", "dspark", "the last", put("target_layer_ids", [0, 2, 5]), OTHER),
    N("AUX006", "peagle", "the last", put(EAGLE_IDS, [1, 3, 6]), OTHER),
    C("AUX006", "dflash", "the last", put(IDS, [1, 3, 6]), OTHER),
    Third("CAC001", "native", "peagle", "a verifier of alternating layers", mixed(64), STOPS, "verifier", launch=()),
    Third("CAC001", "converted", "peagle", "a verifier of a short window", mixed(16), STOPS, "verifier", launch=()),
    Third("CAC001", "native", "peagle", "a verifier of four layers", put(EAGLE_IDS, [1, 2, 3]), STOPS, launch=(), beside=mixed(64, 4)),
    C("CFG006", "dflash", "no verifier", put(NAME, ...), SAME),
    C("CFG006", "peagle", "no verifier", put("speculators_config.verifier", ...), SAME),
    C("CFG006", "dspark", "no K", put(K, ...), SAME),
    C("CFG007", "dflash", "a record cut off", nothing, SAME, files=lay(RECORD, "{")),
    C("CFG007", "peagle", "a record of nothing", nothing, SAME, files=lay(RECORD, '{"provenance_version": 2}')),
    C("CFG007", "dspark", "a list for a record", nothing, SAME, files=lay(RECORD, "[]")),
    N("DTY001", "dflash", "the norm", halved("norm.weight"), SAME),
    N("DTY001", "dspark", "all", halved(), SAME),
    N("DTY001", "peagle", "fc", halved("fc.weight"), SAME),
    N("DTY003", "peagle", "mask_hidden of bytes", whole("mask_hidden", "I8", 1), OTHER),
    C("DTY003", "peagle", "mask_hidden of whole numbers", whole("mask_hidden", "I64", 8), OTHER),
    C("DTY003", "dspark", "a bias of whole numbers", whole("confidence_head.proj.bias", "I32", 4), SAME),
    N("HED003", "dspark", "a flag in words", put("enable_confidence_head", "yes"), SAME, "TEN002"),
    C("HED003", "dspark", "null for a flag", put("enable_confidence_head", None), SAME),
    N("LAY004", "dspark", "no width of the MLP", put("intermediate_size", ...), STOPS),
    N("LAY004", "dflash", "no key-value heads", put("num_key_value_heads", ...), STOPS),
    N("LAY004", "peagle", "no width of the MLP", put("intermediate_size", ...), STOPS),
    C("LAY005", "peagle", "half the heads", half_heads(f"{LAYER}."), OTHER),
    N("LAY005", "peagle", "a verifier of half the heads", half_heads(""), OTHER, of="verifier"),
    N("MSK005", "dspark", "an empty file", nothing, SAME, files=lay("mask_embedding.pt", b"")),
    N("MSK005", "dspark", "no archive", nothing, SAME, files=lay("mask_embedding.pt", b"mask")),
    C("MSK005", "dspark", "an archive", nothing, SAME, files=lay("mask_embedding.pt", archive())),
    N("NRM002", "dflash", "a tenth", put("rms_norm_eps", 0.1), OTHER),
    C("NRM002", "peagle", "a tenth", put(f"{LAYER}.rms_norm_eps", 0.1), OTHER),
    N("NRM002", "dspark", "the verifier's", put("rms_norm_eps", 0.01), OTHER, of="verifier"),
    N("ROP003", "dflash", "a hundred times", put(THETA, 1e6), OTHER),
    N("ROP003", "peagle", "a thousandth", put(THETA, 10.0), OTHER),
    C("ROP003", "dspark", "a hundredth", put(LAYER_THETA, 100.0), OTHER),
    C("SLT003", "dspark", "eight of eight", both(put("sample_from_anchor", False), put("block_size", 8), put(K, 8)), OTHER),
    C("SLT003", "dspark", "a flag in words", put("sample_from_anchor", "false"), SAME, "SLT001"),
    C("SLT004", "dspark", "six of seven", put(K, 6), SAME),
    C("SLT004", "dspark", "seven of eight", put("block_size", 8), SAME),
    N("TEN005", "dflash", "an index of a file that is gone", nothing, STOPS, files=index(norm__weight="gone.safetensors")),
    N("TEN005", "peagle", "a stray tensor", nothing, STOPS, files=weights("stray.safetensors", {"stray.weight": ("BF16", (2,), bytes(4))})),
    C("TEN005", "dspark", "another norm", nothing, OTHER, files=weights("norm.safetensors", {"norm.weight": ("BF16", (128,), bytes(256))})),
    N("VER003", "dflash", "twice as wide", wide(256), STOPS, of="verifier"),
    N("VER003", "dspark", "half as wide", wide(64), STOPS, of="verifier"),
    N("VER003", "peagle", "twice as wide", wide(256), STOPS, of="verifier"),
    C("VER005", "dflash", "a path", put(NAME, "/models/verifier"), SAME),
    C("VER005", "dspark", "a name of three parts", put(NAME, "a/b/c"), SAME),
    C("VER005", "peagle", "blanks", put(NAME, "my org/verifier"), SAME),
    N("VER006", "dflash", "two tokens swapped", nothing, SAME, files=tokenizer(swap)),
    N("VER006", "dspark", "all ids one on", nothing, SAME, files=tokenizer(shift)),
    C("VER006", "peagle", "another last token", nothing, SAME, files=tokenizer(rename)),
    N("VOC001", "dspark", "a larger verifier", larger(640), STOPS, of="verifier"),
    N("VOC001", "dflash", "a verifier larger by a row", larger(513), SAME, of="verifier"),
    N("VOC001", "peagle", "a larger verifier", larger(640), SAME, of="verifier"),
    C("VOC002", "peagle", "a head of 50 rows", reduced("draft_vocab_size", 50), OTHER),
    N("VOC002", "peagle", "a head of 300 rows", reduced("draft_vocab_size", 300), OTHER),
    N("WGT001", "dflash", "NaN in fc", write("fc.weight", 0, b"\xc0\x7f"), OTHER),
    N("WGT001", "dspark", "infinity in a norm", write("norm.weight", -2, b"\x80\x7f"), OTHER),
    C("WGT001", "peagle", "NaN in mask_hidden", write("mask_hidden", 6, b"\xc1\xff"), OTHER),
    N("WGT002", "dflash", "an MLP", zero(DOWN), OTHER),
    N("WGT002", "dspark", "a norm and half a Markov head", zero("norm.weight", "markov_head.markov_w1.weight"), OTHER),
    C("WGT002", "peagle", "mask_hidden", zero("mask_hidden"), OTHER),
    N("WGT004", "peagle", "zeros", write("embed_tokens.weight", 511 * ROW, bytes(ROW)), OTHER),
    N("WGT004", "dspark", "NaN", write("embed_tokens.weight", 511 * ROW, b"\xc0\x7f" * 128), OTHER, "WGT001", "WGT005"),
    N("WGT004", "dflash", "zeros, of the verifier", write("model.embed_tokens.weight", 511 * ROW, bytes(ROW)), OTHER, of="verifier"),
    N("WGT005", "dspark", "a bit of the embedding", write("embed_tokens.weight", -2, b"\0"), APART),
    N("WGT005", "dspark", "a bit of the head", write("lm_head.weight", 0, b"\0"), APART),
    C("WGT005", "dspark", "a row of the embedding", write("embed_tokens.weight", 300 * ROW, bytes(ROW)), APART),
]  # fmt: skip
