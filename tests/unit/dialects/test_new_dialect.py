"""Adding a producer is one file: it converts, validates and shows in `inspect` without a line of code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoints import read_back
from command_line import spectool
from mutations import PAIRS, VERIFIER, Config, Tensors, folder

from spectool.dialects import catalogue as module
from spectool.resources import data_folder

MADE_UP = """
dialect = "dflash-madeup"
title = "Made-up DFlash"
method = "dflash"
layout = "foreign"
evidence = "inferred"
sources = ["tests/unit/dialects/test_new_dialect.py"]

[match]
all = ["key:madeup.taps"]

[backbone]
under = "madeup.decoder"

[read]
block_size = { from = ["madeup.block"] }
mask_token_id = { from = ["madeup.mask"] }
aux_layers = { from = ["madeup.taps"], convention = "output" }
slots = { const = "bonus-anchor" }
speculative_tokens = { default = "from-block" }

[attention]
full = "bidirectional"
sliding = "causal"

[rope]
policy = "full-width"

[[tensor]]
from = "net\\\\.(.+)"
op = "rename"
to = "\\\\1"

[[tensor]]
from = "step"
op = "drop"
why = "the trainer's counter"
"""


@pytest.fixture
def converters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The shipped dialect files and one more."""
    shutil.copytree(str(data_folder("converters")), tmp_path / "converters")
    (tmp_path / "converters" / "dflash-madeup.toml").write_text(MADE_UP)
    monkeypatch.setattr(module, "data_folder", lambda kind: tmp_path / kind)
    forget()
    yield
    forget()


def forget() -> None:
    module.catalogue.cache_clear()
    module.extended.cache_clear()


def made_up(config: Config, tensors: Tensors) -> None:
    own = config.pop("dflash_config")
    decoder = dict(config)
    config.clear()
    config["madeup"] = {"taps": own["target_layer_ids"], "mask": own["mask_token_id"], "block": 8, "decoder": decoder}
    for name in list(tensors):
        tensors[f"net.{name}"] = tensors.pop(name)
    tensors["step"] = ("I64", (1,), bytes(8))


@pytest.mark.usefixtures("converters")
def test_one_file_is_all_it_takes(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", made_up)
    shown = json.loads(spectool("inspect", str(source), "--format", "json").out)
    assert (shown["dialect"], shown["speculative_tokens"]) == ("dflash-madeup", 7)
    named = ("--verifier", str(VERIFIER), "--set", "verifier=org/verifier")
    assert spectool("convert", str(source), str(tmp_path / "out"), *named).code == 0
    assert spectool("convert", str(PAIRS / "dflash-zlab"), str(tmp_path / "same"), *named).code == 0
    for read in (lambda out: (out / "config.json").read_bytes(), lambda out: read_back(out / "model.safetensors")):
        assert read(tmp_path / "out") == read(tmp_path / "same")
    assert spectool("validate", str(tmp_path / "out"), "--verifier", str(VERIFIER)).code == 0
    record = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert record["dialect"]["name"] == "dflash-madeup"
    assert {name: item["why"] for name, item in record["dropped"].items()} == {"step": "the trainer's counter"}


def test_without_the_file_it_is_unknown(tmp_path: Path) -> None:
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", made_up)
    outcome = spectool("inspect", str(source))
    assert outcome.code == 1
    assert "no drafter layout spectool knows" in outcome.err


@pytest.fixture
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.mark.usefixtures("fresh")
def test_a_folder_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "dflash-madeup.toml").write_text(MADE_UP)
    monkeypatch.setenv("SPECTOOL_DIALECTS", str(tmp_path / "own"))
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", made_up)
    assert json.loads(spectool("inspect", str(source), "--format", "json").out)["dialect"] == "dflash-madeup"


@pytest.mark.usefixtures("fresh")
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTOOL_DIALECTS", str(tmp_path / "gone"))
    done = spectool("inspect", str(PAIRS / "dflash-zlab"))
    assert done.code == 2
    assert "SPECTOOL_DIALECTS names" in done.err


@pytest.mark.usefixtures("fresh")
def test_a_dialect_cannot_take_a_shipped_ones_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (data_folder("converters") / "dflash-zlab.toml").read_text()
    (tmp_path / "dflash-zlab.toml").write_text(text.replace('title = "', 'title = "Better '))
    monkeypatch.setenv("SPECTOOL_DIALECTS", str(tmp_path))
    done = spectool("inspect", str(PAIRS / "dflash-zlab"))
    assert done.code == 2
    assert "dflash-zlab exists already" in done.err


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("value", ["madeup_dialects.files", "madeup_dialects"])
def test_a_package_that_points_at_data(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed as pip does it; importing the package would fail, and nobody does."""
    package = tmp_path / "site" / "madeup_dialects"
    data = package / "files" if value.endswith(".files") else package
    data.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (data / "dflash-madeup.toml").write_text(MADE_UP)
    info = tmp_path / "site" / "madeup_dialects-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: madeup-dialects\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[spectool.dialects]\nmadeup = {value}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    source = folder(PAIRS / "dflash-zlab", tmp_path / "source", made_up)
    shown = spectool("inspect", str(source), "--format", "json")
    assert shown.code == 0, shown.err
    assert json.loads(shown.out)["dialect"] == "dflash-madeup"
    shutil.rmtree(data)
    forget()
    done = spectool("inspect", str(source))
    assert done.code == 2
    assert "is no folder of a package" in done.err
