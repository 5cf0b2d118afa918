"""The published schemas: drawn from the models, valid for any tool, true of what spectool writes and prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic
import pytest
from config_files import DATA, ROOT, files, named, plan
from jsonschema import Draft202012Validator
from mutations import NATIVE, PAIRS, VERIFIER
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from spectool import api
from spectool.errors import UsageError
from spectool.formats import export
from spectool.formats.schemas import BASE, published, registry, shipped_text
from spectool.formats.verifier import verifier_view
from spectool.report.jsonable import plan_json, report_json

ENTRY = "speculators-config"


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(shipped_text(name)), registry=Registry())


def errors(name: str, document: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(document)]


@pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 12),
    reason="older releases of pydantic spell the same schemas otherwise; the files are as the newest writes them",
)
def test_files_are_what_the_models_say() -> None:
    assert export.differences(ROOT / "schemas") == []


def test_export_check_shows_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main([str(tmp_path)]) == 0
    assert export.main(["--check", str(tmp_path)]) == 0
    path = tmp_path / "report.schema.json"
    path.write_text(path.read_text().replace("exit code 1", "exit code 3"))
    (tmp_path / "old.schema.json").write_text("{}\n")
    assert export.main(["--check", str(tmp_path)]) == 1
    diff = capsys.readouterr().out
    assert "+++ models" in diff
    assert "old.schema.json" in diff
    assert export.main(["--chekc"]) == 2


@pytest.mark.parametrize("name", published())
def test_schema_is_valid_and_stands_alone(name: str) -> None:
    document = json.loads(shipped_text(name))
    Draft202012Validator.check_schema(document)
    assert document["$id"] == f"{BASE}{name}.schema.json"
    assert document["title"]
    assert document["description"].endswith(".")
    for reference in references(document):
        assert reference.startswith("#/$defs/")
        assert reference.removeprefix("#/$defs/") in document["$defs"]


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [item for child in value.values() for item in references(child)]
    return [item for child in value for item in references(child)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", published())
def test_examples_are_valid(name: str) -> None:
    for example in json.loads(shipped_text(name)).get("examples", ()):
        assert errors(name, example) == []


def test_schemas_of_others_can_point_here_offline() -> None:
    schema = {"$id": "urn:theirs", "items": {"$ref": f"{BASE}{ENTRY}.schema.json"}}
    known = registry().with_resource("urn:theirs", DRAFT202012.create_resource(schema))
    found = list(Draft202012Validator(schema, registry=known).iter_errors([{"speculators_model_type": "nothing"}]))
    assert [error.json_path for error in found] == ["$[0].speculators_model_type"]


@pytest.mark.parametrize("path", [p for p in files("good") if p.suffix == ".json"], ids=lambda p: p.parent.name)
def test_good_files_are_valid(path: Path) -> None:
    name = "deployment" if "deployment" in path.name else ENTRY
    assert errors(name, json.loads(path.read_text())) == []


@pytest.mark.parametrize("path", files("others"), ids=named(files("others")))
def test_configs_of_other_models_pass(path: Path) -> None:
    assert errors(ENTRY, json.loads(path.read_text())) == []


@pytest.mark.parametrize("document", [[], 1, "text", None, {}, {"model_type": "llama"}])
def test_anything_else_passes(document: Any) -> None:
    assert errors(ENTRY, document) == []


@pytest.mark.parametrize("method", NATIVE)
def test_what_convert_prints_and_writes_is_valid(method: str, tmp_path: Path) -> None:
    printed = plan_json(plan(method))
    assert errors("plan", as_json(printed)) == []
    api.convert(plan(method), tmp_path / "out")
    assert errors("provenance", json.loads((tmp_path / "out" / "provenance.json").read_text())) == []
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert errors(ENTRY, config) + errors(f"speculators-{method}", config) == []


@pytest.mark.parametrize("method", NATIVE)
def test_what_validate_prints_is_valid(method: str) -> None:
    settings = {"speculative_tokens": 5} if method == "peagle" else None
    report = api.validate(str(PAIRS / NATIVE[method]), verifier=str(VERIFIER), settings=settings)
    assert errors("report", as_json(report_json(report))) == []


def test_reports_of_faults_are_valid(tmp_path: Path) -> None:
    for path in [*files("bad"), *files("odd")]:
        if path.name == "config.json":
            assert errors("report", as_json(report_json(api.validate(str(weightless(path, tmp_path)))))) == []


def weightless(config: Path, tmp_path: Path) -> Path:
    """A folder with this config and one tensor, which no rule likes."""
    from checkpoints import write_checkpoint_folder  # noqa: PLC0415 - imported where needed: start-up stays quick

    folder = tmp_path / config.parent.name
    return write_checkpoint_folder(folder, json.loads(config.read_text()), {"norm.weight": ("BF16", (1,), b"\0\0")})


def test_verifier_view_is_valid() -> None:
    view = verifier_view("verifier", json.loads((VERIFIER / "config.json").read_text()))
    assert errors("verifier", view.model_dump(mode="json")) == []


def as_json(document: Any) -> Any:
    return json.loads(json.dumps(document))


def check_jsonschema(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_check_jsonschema_agrees() -> None:
    entry = ROOT / "schemas" / f"{ENTRY}.schema.json"
    good = [path for path in files("good") if path.name == "config.json"]
    passed = check_jsonschema("--schemafile", entry, *good, *(VERIFIER / "config.json",))
    assert passed.returncode == 0, passed.stdout + passed.stderr
    bad = DATA / "bad" / "MSK001-mask-token-in-quotes" / "config.json"
    failed = check_jsonschema("--schemafile", entry, bad)
    assert failed.returncode == 1
    assert "mask_token_id" in failed.stdout
    dialects = check_jsonschema(
        "--schemafile", ROOT / "schemas" / "dialect.schema.json", *(ROOT / "converters").glob("*.toml")
    )
    assert dialects.returncode == 0, dialects.stdout
    deployments = [path for path in files("good") if "deployment" in path.name]
    assert check_jsonschema("--schemafile", ROOT / "schemas" / "deployment.schema.json", *deployments).returncode == 0
    assert check_jsonschema("--check-metaschema", *(ROOT / "schemas").glob("*.json")).returncode == 0


def test_a_name_that_is_none() -> None:
    with pytest.raises(UsageError, match="no schema named"):
        shipped_text("reprot")
    assert shipped_text("report.schema.json") == shipped_text("report")
