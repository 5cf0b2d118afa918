"""The three production pairs, planned; the plans are kept (`SPECTOOL_UPDATE_GOLDEN=1` writes them anew)."""

from __future__ import annotations

import html
import json
import os
import re
from math import prod
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, spectool
from production import (
    NAMES,
    Production,
    all_verifier_shapes,
    drafter_shapes,
    make_production,
    record_of,
    verifier_document,
)

UPDATE = os.environ.get("SPECTOOL_UPDATE_GOLDEN") == "1"


@pytest.fixture(scope="module", params=NAMES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Production:
    return make_production(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPECTOOL_ENGINE", raising=False)
    monkeypatch.setenv("PATH", "")


def serve(pair: Production, *more: str, gpus: str | None = None) -> Outcome:
    plan = ("--gpus", gpus or pair.gpus, "--dry-run")
    return spectool("serve", str(pair.drafter), "--verifier", str(pair.verifier), *plan, *more)


def with_hub_ids(pair: Production, text: str) -> str:
    """Read as if both had been named by their Hub ids."""
    text = text.replace(str(pair.drafter), str(pair.record["drafter"]))
    return text.replace(str(pair.verifier), str(pair.record["verifier"]))


def keep(path: Path, text: str) -> None:
    if UPDATE:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "SPECTOOL_UPDATE_GOLDEN=1 writes it anew"


def test_the_plan_is_the_kept_one(pair: Production, root: Path) -> None:
    text, document = serve(pair), serve(pair, "--format", "json")
    assert (text.code, document.code) == (0, 0)
    explained = "".join(line for line in text.err.splitlines(keepends=True) if "no vLLM engine was found" not in line)
    shown = with_hub_ids(pair, f"{text.out}\n{explained}")
    keep(root / "tests/golden/plans" / f"{pair.name}.json", with_hub_ids(pair, document.out))
    keep(root / "examples/production" / pair.name / "plan.txt", shown)


def test_every_flag_has_a_reason_and_a_source(pair: Production, root: Path) -> None:
    document = json.loads(serve(pair, "--format", "json").out)
    for entry in document["flags"][1:]:  # the first is the program
        assert entry["reason"]
        assert entry["source"]


def test_validate_finds_nothing(pair: Production) -> None:
    outcome = spectool("validate", str(pair.drafter), "--verifier", str(pair.verifier))
    assert (outcome.code, outcome.err) == (0, "")
    assert "clean" in outcome.out


def test_the_users_own_command_is_in_the_plan(tmp_path: Path) -> None:
    pair = make_production("qwen3-30b-a3b-dflash", tmp_path)
    argv = json.loads(serve(pair, "--format", "json").out)["argv"]
    assert "--tensor-parallel-size 2" in " ".join(argv)
    assert "--reasoning-parser qwen3" in " ".join(argv)
    speculative = json.loads(argv[argv.index("--speculative-config") + 1])
    assert (speculative["method"], speculative["num_speculative_tokens"]) == ("dflash", 7)


def test_a_gpu_without_its_size_is_a_question(pair: Production) -> None:
    outcome = serve(pair, gpus="a100")
    assert outcome.code == 2
    assert "a100-40gb" in outcome.err
    assert "a100-80gb" in outcome.err


def test_without_gpus_nothing_is_planned(pair: Production) -> None:
    outcome = spectool("serve", str(pair.drafter), "--verifier", str(pair.verifier), "--dry-run", "--format", "json")
    document = json.loads(outcome.out)
    assert set(document) == {"argv", "env", "findings", "flags"}
    assert "--max-model-len" not in document["argv"]


def test_the_catalogue_serves_a_hub_id_with_the_same_plan(pair: Production) -> None:
    here = json.loads(serve(pair, "--format", "json").out)["plan"]
    outcome = spectool(
        "serve",
        str(pair.drafter),
        *("--verifier", str(pair.record["verifier"]), "--gpus", pair.gpus, "--dry-run", "--format", "json"),
    )
    there = json.loads(outcome.out)["plan"]
    assert there["max_model_len"] == here["max_model_len"]
    tokens = [plan["kv_cache"]["by_overhead"]["typical"]["tokens"] for plan in (here, there)]
    assert tokens[0] == pytest.approx(tokens[1], rel=0.001)


@pytest.mark.parametrize("name", NAMES)
def test_headers_have_the_published_sizes(name: str, root: Path) -> None:
    record = record_of(name)
    config = json.loads((root / "examples/production" / name / "config.json").read_text(encoding="utf-8"))
    assert parameters(drafter_shapes(config)) == record["parameters"]
    verifier = verifier_document(record["verifier"])
    counted = 2 * parameters(all_verifier_shapes(verifier["config"]))
    assert counted == pytest.approx(verifier["weights"]["total_size"], rel=1e-5)


def parameters(shapes: dict[str, Any]) -> int:
    return sum(prod(shape) for name, shape in shapes.items() if name not in ("d2t", "t2d"))


def test_what_is_inferred_is_marked(root: Path) -> None:
    for name in NAMES:
        record = record_of(name)
        assert record["inferred"]
        assert record["sources"]
        readme = (root / "examples/production/README.md").read_text(encoding="utf-8")
        assert f"]({name}/plan.txt)" in readme


def test_a_plan_as_a_page(pair: Production) -> None:
    page = serve(pair, "--format", "html")
    assert page.code == 0, page.err
    document = json.loads(serve(pair, "--format", "json").out)
    words = html.unescape(re.sub(r"<[^>]*>", " ", page.out.partition("</style>")[2]))
    for word in document["argv"]:
        assert word in words
    for line in document["plan"]["memory"]["lines"]:
        assert line["what"] in words
        assert f"{line['bytes'] / 2**30:.2f}" in words
    speed = document["plan"]["speed"]
    drawn = page.out.count('aria-label="Speed over the verifier alone, 80 % range: ')
    assert drawn == int(any(row["planned"] for row in speed["by_requests"]))
    assert "<script" not in page.out


def test_each_machine_has_its_command_on_the_page(tmp_path: Path) -> None:
    page = serve(make_production("qwen3-30b-a3b-dflash", tmp_path), "--format", "html", gpus="h200:1x2")
    assert page.code == 0, page.err
    assert [f">Command of machine {rank}<" in page.out for rank in range(3)] == [True, True, False]
    assert page.out.count("--headless \\") + page.out.count("--headless<") == 1


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_format_is_for_what_is_printed(tmp_path: Path, form: str) -> None:
    outcome = spectool("serve", str(tmp_path), "--emit", "sh", "--format", form)
    assert outcome.code == 2
    assert f"--format {form} goes with --dry-run" in outcome.err
