"""What a network and a Hub can do wrong: a clear error and nothing written, or a success with the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, spectool
from loopback_hub import SIGNATURE, TOKEN, Content, LoopbackHub, files_of, loopback

from spectool.checkpoint import partial
from spectool.errors import SourceError
from spectool.hub.reference import Reference
from spectool.hub.repository import is_plain, parse_repository
from spectool.loading import load_drafter

WEIGHTS = r"^/store/"
CONFIG = r"/resolve/.*/config\.json"
LATER = r"bytes=\d{4,}"
LISTING = r"/api/models/"


@pytest.fixture
def drafter(hub: LoopbackHub, pairs: Path) -> str:
    hub.add_folder("org/drafter", pairs / "dflash-zlab")
    return "org/drafter"


@pytest.fixture
def convert(drafter: str, tmp_path: Path) -> Callable[..., Outcome]:
    def run() -> Outcome:
        return spectool("convert", drafter, str(tmp_path / "out"), "--set", "verifier=org/v")

    return run


def fetch(drafter: str) -> None:
    """Open a drafter and fetch all its weights, as a conversion does."""
    checkpoint, _ = load_drafter(drafter)
    partial.prepare((item.file, item.start, item.nbytes) for item in checkpoint.tensors.values())


def fails(drafter: str, *words: str) -> None:
    with pytest.raises(SourceError) as caught:
        fetch(drafter)
    text = f"{caught.value.message} {caught.value.hint}"
    for word in words:
        assert word in text
    assert TOKEN not in text
    assert SIGNATURE not in text


def failed(outcome: Outcome, out: Path, *words: str) -> None:
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert "\nerror" in f"\n{outcome.err}"
    for word in words:
        assert word in outcome.err
    assert TOKEN not in outcome.err
    assert SIGNATURE not in outcome.err
    assert not out.exists()


FATAL = {
    "401": "does not accept the token",
    "403": "forbids access",
    "404": "no such",
    "html": "a web page",
    "loop": "redirects more than 5 times",
    "elsewhere": "redirects to an address that is none",
    "503": "status 503",
    "429": "too many requests",
    "418": "status 418",
    "hang up": "cut off",
}


@pytest.mark.parametrize(("kind", "words"), FATAL.items())
def test_the_listing_fails(kind: str, words: str, hub: LoopbackHub, drafter: str) -> None:
    hub.fault(kind, LISTING)
    fails(drafter, "org/drafter", words)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("401", "does not accept the token"),
        ("403", "forbids access"),
        ("404", "has no file config.json"),
        ("500", "status 500"),
        ("html", "lists"),
        ("gzip", "compressed"),
        ("corrupt", "its digest differs"),
        ("other range", "other bytes than"),
        ("wrong size", "lists"),
        ("more", "more bytes"),
        ("loop", "redirects"),
    ],
)
def test_a_small_file_fails(kind: str, words: str, hub: LoopbackHub, drafter: str) -> None:
    hub.fault(kind, CONFIG)
    fails(drafter, words)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("403", "forbids access"),
        ("404", "no file model.safetensors"),
        ("500", "status 500"),
        ("416", "shorter than the Hub says"),
        ("whole", "the whole file where a part was asked for"),
        ("other range", "other bytes than"),
        ("wrong size", "lists"),
        ("html", "the whole file"),
        ("more", "more bytes"),
        ("corrupt", "its SHA-256 differs"),
        ("loop", "redirects"),
    ],
)
def test_weights_fail(kind: str, words: str, hub: LoopbackHub, drafter: str) -> None:
    hub.fault(kind, WEIGHTS, span=LATER)
    fails(drafter, words)
    hub.faults.clear()
    fetch(drafter)


@pytest.mark.parametrize("where", [LISTING, CONFIG, WEIGHTS])
@pytest.mark.parametrize("kind", ["503", "hang up", "truncated"])
def test_what_passes_is_survived(kind: str, where: str, hub: LoopbackHub, drafter: str, pairs: Path) -> None:
    hub.fault(kind, where, times=1)
    hub.fault(kind, WEIGHTS, times=2, span=LATER)
    fetch(drafter)
    checkpoint, _ = load_drafter(drafter)
    file = checkpoint.root / "model.safetensors"
    assert file.read_bytes() == (pairs / "dflash-zlab" / "model.safetensors").read_bytes()


def test_a_conversion_over_a_bad_line_has_the_same_bytes(
    hub: LoopbackHub, convert: Callable[..., Outcome], pairs: Path, tmp_path: Path
) -> None:
    for kind in ("503", "hang up", "truncated"):
        hub.fault(kind, ".", times=1)
    hub.fault("truncated", WEIGHTS, times=3, span=LATER)
    assert convert().code == 0
    local = spectool("convert", str(pairs / "dflash-zlab"), str(tmp_path / "here"), "--set", "verifier=org/v")
    assert local.code == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "here")


def test_a_slow_hub_is_given_up_on(
    hub: LoopbackHub, convert: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.05)
    hub.fault("slow", WEIGHTS, span=LATER)
    failed(convert(), tmp_path / "out", "no answer in time", "HF_HUB_DOWNLOAD_TIMEOUT")


def test_a_broken_run_is_gone_on_with(hub: LoopbackHub, convert: Callable[..., Outcome], tmp_path: Path) -> None:
    """What the first run fetched is not fetched again: the second asks for the rest of the range alone."""
    hub.fault("truncated", WEIGHTS, times=1, span=LATER)
    hub.fault("403", WEIGHTS, span=LATER)
    failed(convert(), tmp_path / "out", "403")
    hub.faults.clear()
    before = hub.sent["weights"]
    assert before > 0
    assert convert().code == 0
    total = next(iter(hub.repos["org/drafter"].commits.values()))["model.safetensors"].size
    assert hub.sent["weights"] + hub.sent["header"] == total


@pytest.mark.parametrize(
    ("access", "token", "words"),
    [
        ("gated", None, "is gated"),
        ("gated", "hf_other", "The token in use has no access"),
        ("private", None, "no token was sent"),
        ("private", "hf_other", "does not accept the token|the token in use cannot see it"),
        ("forbidden", TOKEN, "forbids access"),
    ],
)
def test_access(
    access: str, token: str | None, words: str, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loopback(monkeypatch, tmp_path, token=token) as hub:
        hub.add_folder("org/drafter", pairs / "dflash-zlab", access=access)
        outcome = spectool("inspect", "org/drafter")
    failed(outcome, tmp_path / "out")
    assert any(word in outcome.err for word in words.split("|")), outcome.err
    assert "hf_other" not in outcome.err


@pytest.mark.parametrize("mode", ["plain", "debug"])
def test_no_token_in_any_output(
    mode: str,
    hub: LoopbackHub,
    convert: Callable[..., Outcome],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub.fault("hang up", WEIGHTS)
    if mode == "debug":
        monkeypatch.setenv("SPECTOOL_DEBUG", "1")
        with pytest.raises(SourceError) as caught:
            convert()
        text = "".join(traceback.format_exception(caught.value))
    else:
        text = convert().err
    shown = capfd.readouterr()
    assert "cut off" in text
    for secret in (TOKEN, SIGNATURE):
        assert secret not in text + shown.out + shown.err


@pytest.mark.parametrize("name", ["../../escape", "/etc/passwd", "a/../b", "a\\b", "nul\0", "a//b", "", "\x1b[2J", "."])
def test_names_that_lead_out(name: str, hub: LoopbackHub, drafter: str, tmp_path: Path) -> None:
    repo = hub.repos[drafter]
    repo.listing = {"siblings": [{"rfilename": name, "size": 3}, {"rfilename": "config.json", "size": 2}]}
    outcome = spectool("convert", drafter, str(tmp_path / "out"), "--set", "verifier=org/v")
    failed(outcome, tmp_path / "out", "cannot be the name of a file")
    assert "\x1b" not in outcome.err
    assert not is_plain(name)


def test_an_index_that_leads_out(hub: LoopbackHub, tmp_path: Path) -> None:
    index = {"weight_map": {"a": "../../../x.safetensors"}}
    hub.add("org/evil", {"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode()})
    failed(spectool("inspect", "org/evil"), tmp_path / "out", "no plain name inside the folder")


def test_a_shard_the_listing_lacks(hub: LoopbackHub, tmp_path: Path) -> None:
    index = {"weight_map": {"fc.weight": "model-1.safetensors"}}
    hub.add("org/short", {"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode()})
    failed(spectool("inspect", "org/short"), tmp_path / "out", "has no file model-1.safetensors")


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("model.safetensors", Content((50_000_000).to_bytes(8, "little") + b"{", 60_000_000), "wanted to plan with"),
        ("model.safetensors", Content(b"\xff" * 8, 10**12), "the format allows"),
        ("model.safetensors", Content((10**6).to_bytes(8, "little"), 100), "the header claims"),
        ("model.safetensors.index.json", Content(b"{", 2**40), "at most 67108864 are fetched"),
        ("config.json", Content(b"{", 2**30), "at most 67108864 are fetched"),
        ("config.json", Content(b"<html>"), "not valid JSON"),
    ],
)
def test_what_is_too_large_is_not_fetched(
    file: str, content: Content, words: str, hub: LoopbackHub, tmp_path: Path
) -> None:
    hub.add("org/evil", {"config.json": b'{"architectures":["DFlashDraftModel"]}', file: content})
    failed(spectool("inspect", "org/evil"), tmp_path / "out", words)
    assert sum(hub.sent.values()) < 10_000


LISTINGS: list[tuple[Any, str]] = [
    ([], "no JSON object"),
    ({}, "names no commit"),
    ({"sha": "main"}, "names no commit"),
    ({"sha": "a" * 40}, "lists no files"),
    ({"sha": "a" * 40, "siblings": ["x"]}, "cannot be the name"),
    ({"sha": "a" * 40, "siblings": [{"rfilename": "x", "size": -1}]}, "is no size"),
    ({"sha": "a" * 40, "siblings": [{"rfilename": "x", "size": True}]}, "is no size"),
    ({"sha": "a" * 40, "siblings": [{"rfilename": "x"}]}, "is no size"),
]


@pytest.mark.parametrize(("answer", "words"), LISTINGS)
def test_listings_that_are_none(answer: Any, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        parse_repository(Reference("org/name"), json.dumps(answer).encode(), "the answer")
    with pytest.raises(SourceError, match="not b"):
        parse_repository(Reference("org/name", "b" * 40), b'{"sha":"%s","siblings":[]}' % (b"a" * 40), "the answer")


def test_a_listing_without_end(hub: LoopbackHub, drafter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectool.hub.client.MAX_LISTING_BYTES", 100)
    failed(spectool("inspect", drafter), tmp_path / "out", "longer than 100 bytes")


def test_no_hub_at_all(drafter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    failed(spectool("inspect", drafter), tmp_path / "out", "127.0.0.1:1", "no connection", "HF_HUB_OFFLINE=1")
    outcome = spectool("validate", drafter, "--verifier", "org/verifier")
    assert outcome.code == 2


def test_a_verifier_that_cannot_be_read_says_how_to_go_on(hub: LoopbackHub, pairs: Path) -> None:
    hub.add_folder("org/verifier", pairs / "verifier", access="forbidden")
    outcome = spectool("validate", str(pairs / "dflash-zlab"), "--verifier", "org/verifier")
    assert outcome.code == 2
    assert "--set verifier=org/verifier" in outcome.err


def test_a_branch_that_vanishes(hub: LoopbackHub, drafter: str, tmp_path: Path) -> None:
    failed(spectool("inspect", f"{drafter}@gone"), tmp_path / "out", "has no revision gone")


def test_many_large_headers_are_too_many(hub: LoopbackHub, drafter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "_moved", [0])
    monkeypatch.setattr(partial, "MAX_ALL_SMALL", 1000)
    fails(drafter, "more than 1000 bytes of headers")


def test_an_address_with_a_password_is_not_repeated(drafter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://user:hunter2@127.0.0.1:1")
    with pytest.raises(SourceError) as caught:
        fetch(drafter)
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"


def test_the_program_itself_in_debug_mode(hub: LoopbackHub, drafter: str, root: Path, tmp_path: Path) -> None:
    """The usual variables, a process of its own, and the client's own log of requests: the token is in none."""
    variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "own"), "HF_TOKEN": TOKEN, "HF_DEBUG": "1"}
    variables |= {"HF_HUB_OFFLINE": "0", "HF_HUB_VERBOSITY": "debug", "SPECTOOL_DEBUG": "1", "PYTHONPATH": str(root)}
    hub.fault("403", WEIGHTS, span=LATER)
    done = subprocess.run(
        [sys.executable, "-m", "spectool", "convert", drafter, str(tmp_path / "out"), "--set", "verifier=org/v"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "forbids access" in done.stderr
    assert any(carried for _, _, _, carried in hub.requests)
    assert TOKEN not in done.stdout + done.stderr
