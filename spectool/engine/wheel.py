"""Read the facts of a vLLM release from its source tree, without importing it.

    python -m spectool.engine.wheel SITE_PACKAGES/vllm 0.33.0 > spectool/data/vllm/0.33.0.json

Only what readings and rules use is extracted: which verifier architectures hand out aux hidden states, and which keys
`--speculative-config` takes.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

INTERFACE = "SupportsEagle3"
REGISTRIES = (
    "_TEXT_GENERATION_MODELS",
    "_MULTIMODAL_MODELS",
    "_TRANSFORMERS_SUPPORTED_MODELS",
    "_TRANSFORMERS_BACKEND_MODELS",
)


def extract(tree: Path, version: str) -> dict[str, object]:
    """Return the facts of the vLLM source tree at `tree` (the folder that holds `model_executor`)."""
    models = tree / "model_executor" / "models"
    capable = _capable_classes(models)
    registry = _registry(ast.parse((models / "registry.py").read_text(encoding="utf-8")))
    return {
        "version": version,
        "source": f"vLLM {version} source tree: model_executor/models/registry.py and the classes it names",
        "aux_capable": sorted(name for name, class_name in registry.items() if class_name in capable),
        "known_architectures": sorted(registry),
        "speculative_config_keys": _config_keys(tree / "config" / "speculative.py"),
    }


def _classes(models: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (class, bases) of every model file."""
    for file in sorted(models.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, [ast.unparse(base).rpartition(".")[2] for base in node.bases]


def _capable_classes(models: Path) -> set[str]:
    bases: dict[str, set[str]] = {}
    for name, parents in _classes(models):
        bases.setdefault(name, set()).update(parents)
    capable = {INTERFACE}
    while True:
        more = {name for name, parents in bases.items() if name not in capable and parents & capable}
        if not more:
            return capable
        capable |= more


def _registry(module: ast.Module) -> dict[str, str]:
    entries: dict[str, str] = {}
    for node in module.body:
        targets = [target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
        if (
            not (set(targets) & set(REGISTRIES))
            or not isinstance(node, ast.Assign)
            or not isinstance(node.value, ast.Dict)
        ):
            continue
        for key, value in zip(node.value.keys, node.value.values, strict=True):
            if (
                isinstance(key, ast.Constant)
                and isinstance(value, ast.Tuple)
                and isinstance(value.elts[-1], ast.Constant)
            ):
                entries[str(key.value)] = str(value.elts[-1].value)
    return entries


def _config_keys(file: Path) -> list[str]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "SpeculativeConfig":
            names = [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
            return sorted(name for name in names if not name.startswith("_"))
    return []


if __name__ == "__main__":
    json.dump(extract(Path(sys.argv[1]), sys.argv[2]), sys.stdout, indent=1)
    sys.stdout.write("\n")
