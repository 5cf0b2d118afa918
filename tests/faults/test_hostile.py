"""Files that somebody made to harm, or that an accident made: each is answered with findings or one clear error."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import spectool
from mutations import PAIRS, VERIFIER
from unharmed import hold

DEEP = 100_000
ESCAPE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe"
CLEAN = json.loads((PAIRS / "dflash-zlab" / "config.json").read_text(encoding="utf-8"))
WEIGHTS = (PAIRS / "dflash-zlab" / "model.safetensors").read_bytes()
HEADER_END = 8 + struct.unpack("<Q", WEIGHTS[:8])[0]
HEADER: dict[str, Any] = json.loads(WEIGHTS[8:HEADER_END])
FIRST = next(name for name in HEADER if name != "__metadata__")

# What any JSON file may turn out to be.
TEXTS: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"<html>502 Bad Gateway</html>",
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "cut off": b'{"architectures": ["DFlash',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "UTF-16": json.dumps(CLEAN).encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf[",
    "no UTF-8": b'{"architectures": ["\xff\xfe"]}',
    "half a surrogate": b'{"architectures": ["\\ud800"]}',
    "a doubled key": b'{"hidden_size": 1, "hidden_size": 2}',
    "NaN": b'{"rms_norm_eps": NaN}',
    "a huge number": b'{"hidden_size": 1' + b"0" * 5000 + b"}",
    "a huge exponent": b'{"hidden_size": 1e999999999}',
    "escapes": json.dumps({"architectures": [ESCAPE], ESCAPE: ESCAPE}, ensure_ascii=False).encode(),
    "NUL bytes": b"\x00" * 64,
}


def changed(**values: Any) -> bytes:
    return json.dumps({**CLEAN, **values}).encode()


CONFIGS: dict[str, bytes] = {
    **TEXTS,
    "layers without number": changed(num_hidden_layers=10**9),
    "layers below zero": changed(num_hidden_layers=-1),
    "heads of zero": changed(num_attention_heads=0),
    "a head of nothing": changed(head_dim=0),
    "sizes as text": changed(hidden_size="128; rm -rf /"),
    "sizes as lists": changed(hidden_size=[[[]]]),
    "aux layers without end": changed(dflash_config={**CLEAN["dflash_config"], "target_layer_ids": [10**30] * 3}),
    "a mask token of another kind": changed(dflash_config={**CLEAN["dflash_config"], "mask_token_id": {"a": 1}}),
    "a path for an architecture": changed(architectures=["../../../etc/passwd"]),
    "code to import": changed(auto_map={"AutoModel": "modeling_evil.Evil"}, architectures=["Evil"]),
    "markup in a name": changed(architectures=["<script>alert(1)</script>"]),
}
INDEXES: dict[str, bytes] = {
    **TEXTS,
    "a path out": json.dumps({"weight_map": {FIRST: "../../secret.safetensors"}}).encode(),
    "an absolute path": json.dumps({"weight_map": {FIRST: "/etc/passwd"}}).encode(),
    "a file that is not there": json.dumps({"weight_map": {FIRST: "model-00001-of-00002.safetensors"}}).encode(),
    "a name with NUL": json.dumps({"weight_map": {FIRST: "a\x00b.safetensors"}}).encode(),
    "no weight map": b"{}",
    "a list for a map": json.dumps({"weight_map": [FIRST]}).encode(),
    "numbers for files": json.dumps({"weight_map": {FIRST: 1}}).encode(),
    "a folder for a file": json.dumps({"weight_map": {FIRST: "."}}).encode(),
    "a size below zero": json.dumps({"metadata": {"total_size": -1}, "weight_map": {FIRST: "x.safetensors"}}).encode(),
}


def header(change: Callable[[dict[str, Any]], None] | None = None, raw: bytes | None = None) -> bytes:
    """The weights with another header; the data stay."""
    entries = json.loads(json.dumps(HEADER))
    if change is not None:
        change(entries)
    text = raw if raw is not None else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + WEIGHTS[HEADER_END:]


def entry(**values: Any) -> bytes:
    return header(lambda entries: entries[FIRST].update(values))


HEADERS: dict[str, bytes] = {
    "empty": b"",
    "shorter than its length": WEIGHTS[:7],
    "a length beyond the file": struct.pack("<Q", 2**40) + WEIGHTS[8:],
    "a length beyond numbers": b"\xff" * 8 + WEIGHTS[8:],
    "no JSON": header(raw=b"<html>"),
    "a list": header(raw=b"[]"),
    "deep": header(raw=b"[" * DEEP + b"]" * DEEP),
    "doubled names": header(raw=b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":1}'),
    "cut-off data": WEIGHTS[: HEADER_END + 100],
    "bytes after the data": WEIGHTS + b"\x00" * 16,
    "an offset below zero": entry(data_offsets=[-8, 8]),
    "an end before the start": entry(data_offsets=[64, 0]),
    "an overlap": entry(data_offsets=[0, 2**20]),
    "an offset beyond numbers": entry(data_offsets=[0, 2**70]),
    "a shape below zero": entry(shape=[-1, 2]),
    "a shape beyond numbers": entry(shape=[2**62, 2**62]),
    "a shape of text": entry(shape=["a"]),
    "a dtype that is none": entry(dtype="F7"),
    "a dtype of another kind": entry(dtype=[1]),
    "a name with escapes": header(lambda entries: entries.update({ESCAPE: entries.pop(FIRST)})),
    "a name with a path": header(lambda entries: entries.update({"../../x": entries.pop(FIRST)})),
    "a name without end": header(lambda entries: entries.update({"x" * 10**6: entries.pop(FIRST)})),
    "an empty name": header(lambda entries: entries.update({"": entries.pop(FIRST)})),
    "metadata of another kind": header(lambda entries: entries.update({"__metadata__": 7})),
    "a pickle": b"\x80\x04cposix\nsystem\nX\x04\x00\x00\x00trueq\x00\x85R.",
    "a zip": b"PK\x03\x04" + b"\x00" * 64,
}


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    source = tmp_path / "drafter"
    shutil.copytree(PAIRS / "dflash-zlab", source)
    return source


def commands(drafter: Path, out: Path) -> list[list[str]]:
    verifier = ["--verifier", str(VERIFIER)]
    return [
        ["validate", str(drafter), *verifier],
        ["convert", str(drafter), str(out), *verifier, "--set", "verifier=x/y"],
    ]


# Sizes that cannot be read decide nothing: the tensors have them too, and a conversion writes those.
DECIDED_BY_TENSORS = {
    "layers without number",
    "layers below zero",
    "heads of zero",
    "a head of nothing",  # vLLM takes 0 for absent as well
    "sizes as text",
    "sizes as lists",
}


def both(place: str, kind: str, drafter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = drafter.parent / "out"
    codes = (0, 1, 2) if kind in DECIDED_BY_TENSORS else (1, 2)
    for command in commands(drafter, out):
        hold(place, kind, command, sources=[drafter], out=out, codes=codes, monkeypatch=monkeypatch)


@pytest.mark.parametrize("kind", CONFIGS)
def test_config(kind: str, drafter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (drafter / "config.json").write_bytes(CONFIGS[kind])
    both("drafter config.json", kind, drafter, monkeypatch)


@pytest.mark.parametrize("kind", INDEXES)
def test_index(kind: str, drafter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (drafter / "model.safetensors").unlink()
    (drafter / "model.safetensors.index.json").write_bytes(INDEXES[kind])
    both("model.safetensors.index.json", kind, drafter, monkeypatch)


@pytest.mark.parametrize("kind", HEADERS)
def test_header(kind: str, drafter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (drafter / "model.safetensors").write_bytes(HEADERS[kind])
    both("model.safetensors", kind, drafter, monkeypatch)


@pytest.mark.parametrize("kind", TEXTS)
def test_verifier_config(kind: str, drafter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, out = tmp_path / "verifier", tmp_path / "out"
    shutil.copytree(VERIFIER, verifier)
    (verifier / "config.json").write_bytes(TEXTS[kind])
    for command in (["validate", str(drafter)], ["convert", str(drafter), str(out), "--set", "verifier=x/y"]):
        hold(
            "verifier config.json",
            kind,
            [*command, "--verifier", str(verifier)],
            sources=[drafter, verifier],
            out=out,
            codes=(0, 1, 2) if kind in {"a doubled key", "NaN", "escapes", "half a surrogate"} else (1, 2),
            monkeypatch=monkeypatch,
        )


@pytest.mark.parametrize("kind", TEXTS)
def test_record(kind: str, drafter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (drafter / "provenance.json").write_bytes(TEXTS[kind])
    command = ["convert", "--verify", str(drafter)]
    hold("provenance.json", kind, command, sources=[drafter], monkeypatch=monkeypatch)
    command = ["convert", str(drafter), str(tmp_path / "out"), "--replay", str(drafter)]
    hold("provenance.json", kind, command, sources=[drafter], out=tmp_path / "out", monkeypatch=monkeypatch)


def link_out(drafter: Path) -> None:
    (drafter / "model.safetensors").unlink()
    (drafter / "model.safetensors").symlink_to("/etc/passwd")


def link_to_itself(drafter: Path) -> None:
    (drafter / "config.json").unlink()
    (drafter / "config.json").symlink_to("config.json")


def folder_for_a_file(drafter: Path) -> None:
    (drafter / "config.json").unlink()
    (drafter / "config.json").mkdir()


def pipe_for_a_file(drafter: Path) -> None:
    (drafter / "model.safetensors").unlink()
    os.mkfifo(drafter / "model.safetensors")


def pipe_for_a_config(drafter: Path) -> None:
    (drafter / "config.json").unlink()
    os.mkfifo(drafter / "config.json")


def no_weights(drafter: Path) -> None:
    (drafter / "model.safetensors").unlink()


def no_config(drafter: Path) -> None:
    (drafter / "config.json").unlink()


def pickled(drafter: Path) -> None:
    (drafter / "model.safetensors").unlink()
    (drafter / "pytorch_model.bin").write_bytes(HEADERS["a pickle"])


def device_for_weights(drafter: Path) -> None:
    (drafter / "model.safetensors").unlink()
    (drafter / "model.safetensors").symlink_to("/dev/zero")


def device_for_a_config(drafter: Path) -> None:
    (drafter / "config.json").unlink()
    (drafter / "config.json").symlink_to("/dev/zero")


def socket_for_a_config(drafter: Path) -> None:
    (drafter / "config.json").unlink()
    with contextlib.chdir(drafter), socket.socket(socket.AF_UNIX) as end:  # its path has room for 107 bytes only
        end.bind("config.json")


def loop_of_folders(drafter: Path) -> None:
    (drafter / "config.json").unlink()
    (drafter / "within").symlink_to(".")
    (drafter / "model.safetensors").unlink()
    (drafter / "model.safetensors").symlink_to("within/within/model.safetensors")


def pickled_in_a_loop(drafter: Path) -> None:
    (drafter / "model.safetensors").unlink()
    (drafter / "pytorch_model.bin").symlink_to("pytorch_model.bin")


def pipe_for_a_pickle(drafter: Path) -> None:
    (drafter / "model.safetensors").unlink()
    os.mkfifo(drafter / "pytorch_model.bin")


def large_config(drafter: Path) -> None:
    with (drafter / "config.json").open("wb") as file:
        file.truncate(2**31)


FOLDERS = [
    link_out,
    link_to_itself,
    folder_for_a_file,
    pipe_for_a_file,
    pipe_for_a_config,
    no_weights,
    no_config,
    pickled,
    large_config,
    device_for_weights,
    device_for_a_config,
    socket_for_a_config,
    loop_of_folders,
    pickled_in_a_loop,
    pipe_for_a_pickle,
]


@pytest.mark.parametrize("harm", FOLDERS, ids=lambda harm: harm.__name__)
def test_folder(harm: Callable[[Path], None], drafter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harm(drafter)
    out = drafter.parent / "out"
    for command in commands(drafter, out):
        hold("drafter folder", harm.__name__, command, sources=[], out=out, monkeypatch=monkeypatch)


def drive(drafter: Path, name: str) -> None:
    (drafter / f"{name}\n{ESCAPE.replace('/', '')}.txt").write_text("x")


def names_that_act(drafter: Path) -> None:
    """Side files whose names act on a terminal; they are carried along or passed over, never printed as they are."""
    for name in ("LICENSE", "README", "notes"):
        drive(drafter, name)
    (drafter / b"NOTICE\xff".decode(errors="surrogateescape")).write_text("x")


@pytest.mark.parametrize("command", ["inspect", "validate", "convert"])
def test_names_of_files(command: str, drafter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names_that_act(drafter)
    moved = drafter.rename(drafter.with_name(f"a\n{ESCAPE.replace('/', '')}"))
    out = moved.parent / "out"
    words = [command, str(moved), *([str(out)] if command == "convert" else []), "--verifier", str(VERIFIER)]
    words += ["--set", "verifier=x/y"] if command == "convert" else []
    hold("names of files", command, words, sources=[moved], out=out, codes=(0, 1, 2), monkeypatch=monkeypatch)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**33)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a device": _device,
    "a loop of links": _loop,
    "a folder": Path.mkdir,
    "8 GiB of nothing": _endless,
}
# Which file it stands for, and what reads it.
READERS: dict[str, list[str]] = {
    "drafter/spectool-upgrades.json": ["schema", "upgrade", "drafter", "--write"],
    "verifier/config.json": ["validate", "drafter", "--verifier", "verifier"],
    "verifier/tokenizer.json": ["validate", "drafter", "--verifier", "verifier"],
    "drafter/provenance.json": ["convert", "--verify", "drafter"],
    "drafter/config.json": ["schema", "upgrade", "drafter"],
    "config.json": ["schema", "check", "config.json"],
    "serve.yaml": ["serve", "serve.yaml", "--dry-run"],
    "verifier/generation_config.json": ["serve", "drafter", "--verifier", "verifier", "--dry-run"],
    "engine.yaml": ["serve", "drafter", "--verifier", "verifier", "--dry-run", "--", "--config", "engine.yaml"],
    "spectool.toml": ["validate", "drafter", "--verifier", "verifier", "--config", "spectool.toml"],
    "gpus.toml": [
        "serve",
        "drafter",
        "--verifier",
        "verifier",
        "--gpu-file",
        "gpus.toml",
        "--gpus",
        "x:1",
        "--dry-run",
    ],
}


@pytest.mark.parametrize("kind", SPECIAL if os.environ.get("SPECTOOL_FAULTS") == "all" else ["a pipe", "a device"])
@pytest.mark.parametrize("name", READERS)
def test_no_file_is_waited_for(name: str, kind: str, drafter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in a file's place is looked at before it is read: nothing hangs, no memory fills."""
    monkeypatch.chdir(drafter.parent)
    shutil.copytree(VERIFIER, "verifier")
    if name.startswith("drafter/"):
        assert spectool("convert", "drafter", "made", "--verifier", "verifier", "--set", "verifier=x/y").code == 0
        shutil.rmtree("drafter")
        Path("made").rename("drafter")
        config = json.loads(Path("drafter/config.json").read_text())
        Path("drafter/config.json").write_text(json.dumps({**config, "model_type": "qwen3"}))
        Path("drafter/provenance.json").unlink()
    if name.endswith("tokenizer.json"):
        Path("drafter/tokenizer.json").write_text("{}")
    Path(name).unlink(missing_ok=True)
    SPECIAL[kind](Path(name))
    optional = name.endswith(("tokenizer.json", "generation_config.json"))
    codes = (0, 1, 2) if optional else (1, 2)
    hold(name, kind, READERS[name], sources=[], codes=codes, monkeypatch=monkeypatch)


SERVE = {"deployment_version": 1, "drafter": "dflash-zlab", "verifier": "verifier", "gpus": "a100-80gb:1"}
DEPLOYMENTS: dict[str, bytes] = {
    **{kind: text for kind, text in TEXTS.items() if kind != "a byte order mark"},
    "a YAML object": b"!!python/object/apply:os.system ['true']",
    "YAML that grows": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n".encode()
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "YAML that holds itself": b"&a\ndrafter: *a\n",
    "shell in a flag": json.dumps({**SERVE, "vllm": {"port; rm -rf /": 1}}).encode(),
    "a flag of ours": json.dumps({**SERVE, "vllm": {"speculative-config": "{"}}).encode(),
    "a secret in the open": json.dumps({**SERVE, "secrets": {"HF_TOKEN": "hf_plain"}}).encode(),
    "no such GPU": json.dumps({**SERVE, "gpus": "h900:8"}).encode(),
    "GPUs below zero": json.dumps({**SERVE, "gpus": "a100-80gb:-1"}).encode(),
    "a path with NUL": json.dumps({**SERVE, "drafter": "a\x00b", "verifier": "\x00"}).encode(),
    "another version": json.dumps({**SERVE, "deployment_version": 99}).encode(),
    "escapes in a name": json.dumps({**SERVE, "served_name": 7, ESCAPE: 1}).encode(),
}


ONLY_YAML = {"a YAML object", "YAML that grows", "YAML that holds itself"}


@pytest.mark.parametrize("kind", DEPLOYMENTS)
def test_deployment(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAIRS)
    file = tmp_path / "serve.yaml"
    file.write_bytes(DEPLOYMENTS[kind])
    hold("deployment file", kind, ["serve", str(file), "--dry-run"], sources=[tmp_path], monkeypatch=monkeypatch)
    hold("deployment file", kind, ["schema", "check", str(file)], sources=[tmp_path], codes=(0, 1, 2))
    if kind not in ONLY_YAML:
        file = file.rename(tmp_path / "serve.json")
        hold("serve.json", kind, ["serve", str(file), "--dry-run"], sources=[tmp_path], monkeypatch=monkeypatch)


DIALECT = (PAIRS.parents[1] / "converters" / "dflash-zlab.toml").read_text(encoding="utf-8")
DIALECTS: dict[str, str] = {
    "empty": "",
    "no TOML": "]]][[[",
    "deep": "a = " + "[" * 5000 + "]" * 5000,
    "a doubled key": DIALECT + '\ndialect = "again"\n',
    "an unknown operation": DIALECT.replace('op = "keep"', 'op = "eval"'),
    "a pattern that never ends": DIALECT.replace('from = ".*', 'from = "(a+)+$|.*'),
    "a pattern that is none": DIALECT.replace('from = ".*', 'from = "(*'),
    "a key of nobody's": 'exec = "import os"\n' + DIALECT,
    "a path for a name": DIALECT.replace('dialect = "', 'dialect = "../../'),
}


@pytest.mark.parametrize("kind", DIALECTS)
def test_dialect_file(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert DIALECTS[kind] != DIALECT
    file = tmp_path / "dflash-other.toml"
    file.write_text(DIALECTS[kind], encoding="utf-8")
    codes = (0, 1, 2) if kind in {"empty", "a pattern that never ends"} else (1, 2)
    hold("dialect file", kind, ["schema", "check", str(file)], sources=[tmp_path], codes=codes, monkeypatch=monkeypatch)


SETTINGS: dict[str, str] = {
    "no TOML": "= = =",
    "another kind": "fail-on = 7",
    "an unknown key": 'exec = "true"',
    "a reason that is empty": '[ignore]\nVER005 = ""',
    "no such code": '[ignore]\n"../x" = "why"',
    "no such engine": 'engine = "vllm==99"',
    "a range that is none": 'engine = "vllm>=>=1"',
    "a rule that is none": 'select = ["ZZZ"]',
    "deep": "select = " + "[" * 5000 + "]" * 5000,
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_configuration(kind: str, drafter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spectool.toml").write_text(SETTINGS[kind], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    command = ["validate", str(drafter), "--verifier", str(VERIFIER)]
    hold("spectool.toml", kind, command, sources=[tmp_path], monkeypatch=monkeypatch)


WORDS: dict[str, list[str]] = {
    "a setting of nobody's": ["--set", "__class__=x"],
    "a setting without value": ["--set", "mask_token_id"],
    "a setting twice": ["--set", "causal=true", "--set", "causal=false"],
    "a number beyond numbers": ["--set", "speculative_tokens=" + "9" * 5000],
    "a number that is none": ["--set", "speculative_tokens=NaN"],
    "tokens below zero": ["--set", "speculative_tokens=-3"],
    "no such dialect": ["--from", "../../etc/passwd"],
    "no such format": ["--to", "gguf"],
    "shards of nothing": ["--max-shard-size", "0"],
    "shards that are none": ["--max-shard-size", "1e999GB"],
    "an engine that is none": ["--engine", "vllm==1; rm -rf /"],
}


@pytest.mark.parametrize("kind", WORDS)
def test_words_of_the_command_line(kind: str, drafter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    command = ["convert", str(drafter), str(out), "--verifier", str(VERIFIER), "--set", "verifier=x/y", *WORDS[kind]]
    hold("command line", kind, command, sources=[drafter], out=out, monkeypatch=monkeypatch)


PLACES: dict[str, Callable[[Path], str]] = {
    "the source itself": lambda root: str(root / "drafter"),
    "inside the source": lambda root: str(root / "drafter" / "out"),
    "a file": lambda root: str(root / "drafter" / "config.json"),
    "below a file": lambda root: str(root / "drafter" / "config.json" / "out"),
    "the root of all": lambda _: "/",
    "a name that is too long": lambda root: f"{root}/{'x' * 300}",
    "nowhere to write": lambda _: "/proc/spectool-out",
    "an empty name": lambda _: "",
}


@pytest.mark.parametrize("kind", PLACES)
def test_where_to_write(kind: str, drafter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["convert", str(drafter), PLACES[kind](tmp_path), "--verifier", str(VERIFIER), "--set", "verifier=x/y"]
    hold("output folder", kind, command, sources=[drafter], monkeypatch=monkeypatch)
    hold("output folder", f"{kind}, forced", [*command, "--force"], sources=[drafter], monkeypatch=monkeypatch)
