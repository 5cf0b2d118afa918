"""What the documents say: every command in them is run, every page is built, every generated page is current."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import spectool

from spectool.report import cli_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
# Made from the program itself; their examples are options, not lines to type.
GENERATED = {"cli.md", "rules.md"}
# What a placeholder stands for in the sandbox, a copy of examples/pairs.
STANDS_FOR = {
    "DRAFTER": "dflash-zlab",
    "SOURCE": "dflash-zlab",
    "FOLDER": "dflash-zlab",
    "V": "verifier",
    "VERIFIER": "verifier",
    "OUT": "out",
    "NEW": "new",
    "CODE": "ATT001",
    "FILE": "serve.yaml",
}
# Lines that need an engine, a server or the network: their options are looked up instead. Each with its reason.
ONLY_LOOKED_UP = {
    "probe": "starts an engine, or asks a running one",
    "installed": "asks the installed engine",
    "--to-hub": "writes to the Hub",
    "org/": "reads from the Hub",
    "Qwen/": "reads from the Hub",
    "z-lab/": "reads from the Hub",
    "--replay": "needs a record that an earlier line on another page made",
    "--emit": "needs a deployment file of the reader's own",
    "serve.yaml": "needs a deployment file of the reader's own",
    "profile.json": "needs a sweep's result",
    "$(": "is for a shell",
}


@dataclass(frozen=True)
class Line:
    """A command in a document, with the output shown below it, if any."""

    page: str
    number: int
    words: tuple[str, ...]
    output: tuple[str, ...]


def commands(page: Path) -> Iterator[Line]:
    """Every line of a code block that begins with `spectool` or `$ spectool`."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fenced = False
    for number, text in enumerate(lines):
        if text.startswith("```"):
            fenced = not fenced
        inside = fenced or text.startswith("    ")
        found = re.match(r"(?:    )?(\$ )?spectool( .*)$", text)
        if not inside or found is None:
            continue
        written = re.split(r"\s+#|(?<=\S)\s{3,}(?=[a-z]+ [a-z])", found[2])[0]
        words = shlex.split(re.sub(r"\[[^\]]*\]", "", written))
        output: list[str] = []
        if found[1]:
            for following in lines[number + 1 :]:
                if following.startswith(("```", "$ ")) or not following.strip():
                    break
                output.append(following.rstrip())
        yield Line(page.relative_to(ROOT).as_posix(), number + 1, tuple(words), tuple(output))


LINES = [line for page in PAGES if page.name not in GENERATED for line in commands(page)]


def looked_up(line: Line) -> bool:
    return any(mark in " ".join(line.words) for mark in ONLY_LOOKED_UP)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "pairs"
    shutil.copytree(ROOT / "examples" / "pairs", folder)
    # The README's drafter with a fault: as early converters wrote it.
    command = ["convert", str(folder / "dflash-zlab"), str(folder / "drafter"), "--verifier", str(folder / "verifier")]
    assert spectool(*command, "--set", "verifier=spectool/tiny-verifier").code == 0
    config = json.loads((folder / "drafter" / "config.json").read_text(encoding="utf-8"))
    config["sliding_window_non_causal"] = False
    del config["transformer_layer_config"]["is_causal"]
    (folder / "drafter" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "drafter" / "provenance.json").unlink()
    return folder


@pytest.fixture
def sandbox(prepared: Path, tmp_path: Path) -> Path:
    """A place of its own: what an earlier page left there must not count."""
    return shutil.copytree(prepared, tmp_path / "pairs")


@pytest.mark.parametrize("page", sorted({line.page for line in LINES}))
def test_commands_in_documents(page: str, sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's lines are run in their order: one may read what an earlier one wrote."""
    monkeypatch.chdir(sandbox)
    for line in LINES:
        if line.page == page:
            try_line(line, sandbox)


def try_line(line: Line, sandbox: Path) -> None:
    where = f"{line.page}:{line.number}"
    words = [STANDS_FOR.get(word, word) for word in line.words]
    if looked_up(line):
        command = [word for word in words[:2] if not word.startswith("-")][: 2 if words[0] == "schema" else 1]
        known = spectool(*command, "--help").out
        own = words[: words.index("--")] if "--" in words else words
        for option in (word.partition("=")[0] for word in own if word.startswith("--")):
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known), f"{where}: {command} has no {option}"
        return
    words = [re.sub(r"^/tmp(?=/)", f"{sandbox}/written", word) for word in words]
    if words[0] == "serve" and "--dry-run" not in words:
        words.insert(1, "--dry-run")
    if words[0] == "convert" and "--verify" not in words:
        words.append("--force")  # pages convert into the same placeholder
    if words[0] == "convert" and "peagle-native" not in words and "--verify" not in words:
        words += ["--set", "verifier=spectool/tiny-verifier"] if not any("verifier=" in word for word in words) else []
    done = spectool(*words)
    questions = line.output and "does not say" in " ".join(line.output)
    assert done.code == (2 if questions else done.code if done.code in {0, 1} else -1), f"{where}: {done.err}"
    printed = [" ".join(text.split()) for text in (done.out + done.err).splitlines()]
    shown = [" ".join(re.sub(r"\B/tmp(?=/)", f"{sandbox}/written", text).split()) for text in line.output]
    for text in shown:
        if text.endswith(" ..."):
            assert any(item.startswith(text.removesuffix(" ...")) for item in printed), f"{where}: {text}"
        else:
            assert text in printed, f"{where}: {text!r} is not in\n{done.out}{done.err}"


def test_there_are_commands_to_run() -> None:
    run = [line for line in LINES if not looked_up(line)]
    assert len(run) >= 12
    assert {line.words[0] for line in run} >= {"inspect", "convert", "validate", "serve"}


@pytest.mark.parametrize("name", sorted(cli_page.pages()))
def test_generated_pages_are_current(name: str) -> None:
    """Wrong? Run `python -m spectool.report.cli_page`."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == cli_page.pages()[name]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "concepts.html").read_text(encoding="utf-8")
    assert "img/aux-layers.svg" in page
    loaded = re.findall(r'(?:src|<link[^>]*href)="(https?://[^"]+)"', page)
    assert loaded == []
