"""Read the facts of a vLLM release from its wheel or source tree, without importing it.

    python -m spectool.engine.wheel vllm-0.33.0-*.whl          (make facts VLLM=0.33.0 downloads it first)

Writes `spectool/data/vllm/X.json` and `spectool/data/flags/X.json`, and prints what changed against the release before
it, with the fields of a reading and the rules that depend on it. Extracted are: which verifier architectures hand out
aux hidden states, which keys `--speculative-config` takes, which Speculators types exist, the features of
`vllm-features.toml`, and the flags of `vllm serve` with what each takes.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spectool.engine.options import options, types_of
from spectool.errors import SourceError, SpectoolError
from spectool.resources import package_data

INTERFACE = "SupportsEagle3"
# Classes of flags whose value is JSON by hand (spectool.engine.options), and the enumeration of attention backends.
_CLASSES = ("SpeculativeConfig", "WatermarkConfig", "DiffusionConfig")
_BACKENDS = "AttentionBackendEnum"
_CONNECTORS = "distributed/kv_transfer/kv_connector/factory.py"
MODELS = "model_executor/models/"
REGISTRIES = {
    "_TEXT_GENERATION_MODELS",
    "_MULTIMODAL_MODELS",
    "_TRANSFORMERS_SUPPORTED_MODELS",
    "_TRANSFORMERS_BACKEND_MODELS",
}


class Tree:
    """The Python files of a release, from a wheel or a folder that holds `model_executor`."""

    def __init__(self, source: Path) -> None:
        self._zip = zipfile.ZipFile(source) if source.is_file() else None
        self._root = source
        names = self._zip.namelist() if self._zip else [str(file.relative_to(source)) for file in source.rglob("*.py")]
        prefix = "vllm/" if self._zip else ""
        self.files = {name.removeprefix(prefix) for name in names if name.startswith(prefix) and name.endswith(".py")}
        if "model_executor/models/registry.py" not in self.files:
            raise SourceError(f"{source} holds no vLLM source tree")

    def read(self, name: str) -> str:
        """Return a file's text; empty when the release has no such file."""
        if name not in self.files:
            return ""
        if self._zip:
            return self._zip.read(f"vllm/{name}").decode("utf-8")
        return (self._root / name).read_text(encoding="utf-8")


def extract(tree: Tree, version: str) -> dict[str, Any]:
    """Return the facts of a release as they stand in its data file."""
    capable = _capable_classes(tree)
    registry = _registry(ast.parse(tree.read(f"{MODELS}registry.py")))
    return {
        "version": version,
        "source": f"vLLM {version} source tree, read by spectool.engine.wheel",
        "features": {item["name"]: bool(re.search(item["pattern"], tree.read(item["file"]))) for item in features()},
        "aux_capable": sorted(name for name, class_name in registry.items() if class_name in capable),
        "known_architectures": sorted(registry),
        "draft_classes": _draft_classes(ast.parse(tree.read(f"{MODELS}registry.py"))),
        "speculative_config_keys": _config_keys(tree.read("config/speculative.py")),
    }


def flags_document(tree: Tree, version: str) -> str:
    """Return the flags of a release as their data file holds them, one flag a line.

    `disable`: whether `--disable-x` is an opposite of `--enable-x` too, and the other way round.
    """
    source = f"vLLM {version} source tree, read by spectool.engine.options"
    found, types = options(tree), types_of(tree)
    classes = types.classes([*(shape["of"] for shape in found.values() if "of" in shape), *_CLASSES])
    pairs = "class EnableDisableAction" in tree.read("utils/argparse_utils.py")
    head: dict[str, Any] = {
        "version": version,
        "source": source,
        "disable": pairs,
        "attention_backends": types.names_of(_BACKENDS),
    }
    head["quantisation"] = types.literal_of("QuantizationMethods")
    head["kv_connectors"] = sorted(set(re.findall(r'register_connector\(\s*"(\w+)"', tree.read(_CONNECTORS))))
    parsers = tree.read("reasoning/__init__.py").partition("_REASONING_PARSERS_TO_REGISTER")[2]
    head["reasoning_parsers"] = re.findall(r'^    "([\w-]+)": \(', parsers, re.MULTILINE)
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for title, table in (("flags", found), ("classes", classes)):
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(shape)}" for name, shape in table.items())
        lines.append(f' "{title}": {{\n{rows}\n }}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def features() -> list[dict[str, Any]]:
    """Return the features that are looked for, with the fields and files they concern."""
    table = tomllib.loads(package_data("vllm-features.toml").read_text(encoding="utf-8"))
    return list(table["feature"])


def _capable_classes(tree: Tree) -> set[str]:
    bases: dict[str, set[str]] = {}
    for name, parents in _classes(tree):
        bases.setdefault(name, set()).update(parents)
    capable = {INTERFACE}
    while True:
        more = {name for name, parents in bases.items() if name not in capable and parents & capable}
        if not more:
            return capable
        capable |= more


def _classes(tree: Tree) -> Iterator[tuple[str, list[str]]]:
    """Yield (class, bases) of every model file."""
    for file in sorted(tree.files):
        if not file.startswith((MODELS, "models/")):
            continue
        for node in ast.walk(ast.parse(tree.read(file))):
            if isinstance(node, ast.ClassDef):
                yield node.name, [ast.unparse(base).rpartition(".")[2] for base in node.bases]


def _registry(module: ast.Module) -> dict[str, str]:
    entries: dict[str, str] = {}
    for node in module.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        if not {target.id for target in node.targets if isinstance(target, ast.Name)} & REGISTRIES:
            continue
        for key, value in zip(node.value.keys, node.value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                last = value.elts[-1]
                if isinstance(last, ast.Constant):
                    entries[str(key.value)] = str(last.value)
    return entries


def _draft_classes(module: ast.Module) -> dict[str, str]:
    """Return the architectures of drafters with the module that runs each."""
    entries: dict[str, str] = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if "_SPECULATIVE_DECODING_MODELS" in names:
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                        first = value.elts[0]
                        entries[str(key.value)] = str(first.value) if isinstance(first, ast.Constant) else ""
    return dict(sorted(entries.items()))


def _config_keys(text: str) -> list[str]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == "SpeculativeConfig":
            fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
            names = [target.id for target in fields if isinstance(target, ast.Name)]
            return sorted(name for name in names if not name.startswith("_"))
    return []


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Say what is new or gone in a release, one line each."""
    lines = []
    for item in features():
        name = item["name"]
        old, new = before["features"].get(name), after["features"][name]
        if old != new:
            touched = f" [{', '.join(item['fields'])}]" if item["fields"] else ""
            lines.append(f"{'+' if new else '-'} {name}{touched}: {item['meaning']}")
    for key, label in (("aux_capable", "can verify"), ("speculative_config_keys", "speculative-config key")):
        lines += [f"+ {label}: {name}" for name in sorted(set(after[key]) - set(before[key]))]
        lines += [f"- {label}: {name}" for name in sorted(set(before[key]) - set(after[key]))]
    return lines


def main(arguments: list[str]) -> int:
    """Extract one release, write its data file and print the changes."""
    parser = argparse.ArgumentParser(description="Read the facts of a vLLM release into spectool/data/vllm.")
    parser.add_argument("source", type=Path, help="a vllm wheel, or the vllm folder of a source tree")
    parser.add_argument("--version", help="the release, where the name of the wheel does not say it")
    chosen = parser.parse_args(arguments)
    named = re.match(r"vllm(?:_cpu)?-(\d+\.\d+\.\d+)", chosen.source.name)
    version = chosen.version or (named[1] if named else None)
    if version is None:
        parser.error("--version is needed for a source tree")
    folder = Path(str(package_data("vllm")))
    tree = Tree(chosen.source)
    facts = extract(tree, version)
    flags = Path(str(package_data("flags"))) / f"{version}.json"
    flags.parent.mkdir(exist_ok=True)
    flags.write_text(flags_document(tree, version), encoding="utf-8")
    (folder / f"{version}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    earlier = [file for file in folder.glob("*.json") if _order(file.stem) < _order(version)]
    if earlier:
        last = max(earlier, key=lambda file: _order(file.stem))
        lines = changes(json.loads(last.read_text(encoding="utf-8")), facts)
        sys.stdout.write("\n".join([f"vLLM {last.stem} -> {version}:", *(lines or ["nothing spectool reads"])]) + "\n")
    return 0


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SpectoolError as problem:
        sys.exit(problem.message)
