"""HTML reports in a real browser, by axe-core, keyboard and paper. `SPECTOOL_PAGES=FOLDER` keeps the screenshots."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clean_run import npm_install
from command_line import spectool
from mutations import PAIRS, VERIFIER, both, folder, put

from spectool.serving.expectation import expectation
from spectool.serving.metrics import Snapshot
from spectool.serving.remote import Remote
from spectool.serving.remote_report import as_html

PACKAGES = ("playwright-core@1.64.1", "axe-core@4.14.1")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the browser's driver and axe-core; skipped where npm or its registry is missing."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    root = tmp_path_factory.mktemp("packages")
    if why := npm_install(root, *PACKAGES):
        pytest.skip(why)
    shutil.copy(HERE / "look.mjs", root / "look.mjs")
    return root


@pytest.fixture(scope="module")
def look(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, str]], dict[str, Any]]:
    """Show named pages to the browser; what it says of each."""
    program = os.environ.get("SPECTOOL_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium here; SPECTOOL_CHROMIUM names one")

    def run(pages: dict[str, str]) -> dict[str, Any]:
        written = tmp_path_factory.mktemp("pages")
        kept = Path(os.environ.get("SPECTOOL_PAGES") or written)
        kept.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (written / f"{name}.html").write_text(text, encoding="utf-8")
        axe = packages / "node_modules" / "axe-core" / "axe.min.js"
        command = ["node", "look.mjs", program, str(axe), str(kept.resolve())]
        command += [str(written / f"{name}.html") for name in pages]
        done = subprocess.run(command, cwd=packages, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return said

    return run


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    change = both(put("rope_parameters.partial_rotary_factor", 0.25), put("dflash_config.mask_token_id", 600))
    broken = str(folder(PAIRS / "dflash-zlab", tmp_path_factory.mktemp("d") / "a-drafter-with-faults", change))
    verifier = ("--verifier", str(VERIFIER))
    html = ("--format", "html")
    return {
        "validate-faulty": spectool("validate", broken, *verifier, *html, "--ignore", "MSK002=told upstream").out,
        "validate-clean": spectool("validate", str(PAIRS / "dspark-deepspec"), *verifier, *html).out,
        "validate-alone": spectool("validate", str(PAIRS / "peagle-native"), *html).out,
        "inspect": spectool("inspect", broken, *html).out,
        "inspect-open": spectool("inspect", str(PAIRS / "peagle-native"), *html).out,
        "known": spectool("inspect", str(VERIFIER), *html).out,
        "serve": spectool(
            "serve", str(PAIRS / "dflash-zlab"), *verifier, "--gpus", "a100-80gb:1", "--dry-run", *html
        ).out,
        "serve-speed": spectool(
            "serve", str(PAIRS / "dspark-deepspec"), *verifier, "--gpus=h100-80gb:1", "--expect=2.5", "--dry-run", *html
        ).out,
        "probe": probed(Snapshot(400, 2800, 480, (240, 130, 60, 30, 12, 6, 2)), 7),
        "probe-nothing": probed(None, 0),
    }


def probed(seen: Snapshot | None, k: int) -> str:
    """The page of a server that did this, beside what was published for a P-EAGLE drafter."""
    found = Remote("a-model", "0.33.0", 12, 900, 3.0, seen, None, None)
    expected, positions = expectation(k, None, None, ["RedHatAI/Qwen3-8B-speculator.peagle"])
    return as_html("http://127.0.0.1:8000", found, expected, positions)


def test_pages_in_a_browser(look: Callable[[dict[str, str]], dict[str, Any]], pages: dict[str, str]) -> None:
    for name, said in look(pages).items():
        assert said["console"] == [], name
        assert said["requests"] == [], name
        assert said["violations"] == [], name
        assert said["tabs"] == said["focusable"], f"{name}: not all that can be used is reached by keyboard"
        assert said["unseen"] == [], f"{name}: focus does not show"
        assert said["overflow"] == [], f"{name}: wider than a telephone"


def test_the_browser_is_not_blind(look: Callable[[dict[str, str]], dict[str, Any]]) -> None:
    bad = (
        "<html><body><img src='https://example.invalid/x.png'><h3>no language</h3>"
        "<p style='color:#bbb;background:#fff'>pale</p><div style='width:2000px'>wide</div>"
        "<a href='#x' style='outline:none'>unseen</a><script>console.error('oops')</script></body></html>"
    )
    said = look({"bad": bad})["bad"]
    assert "oops" in said["console"]
    assert said["requests"]
    assert {"html-has-lang", "image-alt", "color-contrast"} <= {item["id"] for item in said["violations"]}
    assert said["unseen"] == ["unseen"]
    assert said["overflow"]
