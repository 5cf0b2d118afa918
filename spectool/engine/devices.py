"""Which GPUs this machine has: NVIDIA's by its library or command, AMD's by its command, none on a CPU.

AMD's part follows the command's documentation and was not tried on such a machine.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SECONDS = 20.0
_GIB = 2**30


@dataclass(frozen=True)
class Device:
    """A GPU as its driver describes it. Memory in GiB, the driver's total; `capability` is CUDA's."""

    name: str
    memory_gib: float | None = None
    capability: tuple[int, int] | None = None
    uuid: str = ""


def detect(environ: Mapping[str, str] | None = None) -> tuple[list[Device], str]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves, and what told; an empty list where none did."""
    env = os.environ if environ is None else environ
    for ask, source in ((_nvml, "NVML"), (_nvidia_smi, "nvidia-smi")):
        found = ask()
        if found:
            return _visible(found, env.get("CUDA_VISIBLE_DEVICES")), source
    found = _amd_smi()
    if found:
        return found, "amd-smi (not tried on such a machine)"
    return [], "neither NVML, nvidia-smi nor amd-smi tells of one"


def _nvml() -> list[Device]:
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        return [_nvml_device(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _nvml_device(nvml: Any, index: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    total = nvml.nvmlDeviceGetMemoryInfo(handle).total
    return Device(
        _text(nvml.nvmlDeviceGetName(handle)), total / _GIB, (major, minor), _text(nvml.nvmlDeviceGetUUID(handle))
    )


def _nvidia_smi() -> list[Device]:
    fields = "name,memory.total,compute_cap,uuid"
    text = _run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
    return [device for row in csv.reader(io.StringIO(text)) if (device := _smi_device(row)) is not None]


def _smi_device(row: Sequence[str]) -> Device | None:
    if len(row) != 4:
        return None
    name, memory, capability, uuid = (part.strip() for part in row)
    try:
        major, minor = (int(part) for part in capability.split("."))
        return Device(name, float(memory) / 1024, (major, minor), uuid)
    except ValueError:  # "[N/A]", as unified memory has
        return Device(name, uuid=uuid)


def _amd_smi() -> list[Device]:
    try:
        found = json.loads(_run(["amd-smi", "static", "--asic", "--vram", "--json"]) or "[]")
    except (ValueError, RecursionError):
        return []
    entries = found.get("gpu_data", []) if isinstance(found, dict) else found
    devices = []
    for entry in entries if isinstance(entries, list) else []:
        asic = entry.get("asic", {}) if isinstance(entry, dict) else {}
        name = asic.get("market_name") if isinstance(asic, dict) else None
        if isinstance(name, str) and name:
            devices.append(Device(name))
    return devices


def _visible(found: list[Device], wanted: str | None) -> list[Device]:
    """Return the devices a variable leaves, by number or beginning of a UUID; the first unknown ends the list."""
    if wanted is None:
        return found
    chosen: list[Device] = []
    for word in (part.strip() for part in wanted.split(",")):
        matches = [found[int(word)]] if word.isdecimal() and int(word) < len(found) else []
        if not matches and word.startswith("GPU-"):
            matches = [device for device in found if device.uuid.startswith(word)]
        if len(matches) != 1:
            break
        chosen += matches
    return chosen


def _run(argv: list[str]) -> str:
    program = shutil.which(argv[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *argv[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
