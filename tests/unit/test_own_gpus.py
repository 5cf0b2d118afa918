"""GPUs beyond the catalogue: a user's file, and those of this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import spectool

from spectool import own_gpus
from spectool.engine import devices
from spectool.engine.devices import Device, detect
from spectool.errors import SourceError, UsageError
from spectool.planning import gpus

H200 = Device("NVIDIA H200", 140.4, (9, 0), "GPU-aa")
L20 = Device("NVIDIA L20", 44.99, (8, 9), "GPU-bb")


@pytest.fixture(autouse=True)
def _own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_added", [])


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A library with two cards, older versions of which answer in bytes."""

    class NVMLError(Exception):
        pass

    found = [H200, L20]
    module = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(found),
        nvmlDeviceGetHandleByIndex=lambda index: found[index],
        nvmlDeviceGetName=lambda device: device.name.encode(),
        nvmlDeviceGetUUID=lambda device: device.uuid,
        nvmlDeviceGetMemoryInfo=lambda device: SimpleNamespace(total=int(device.memory_gib * 2**30)),
        nvmlDeviceGetCudaComputeCapability=lambda device: device.capability,
    )
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["NVIDIA H200", "NVIDIA L20"]),
        ("1", ["NVIDIA L20"]),
        ("1,0", ["NVIDIA L20", "NVIDIA H200"]),
        ("GPU-b", ["NVIDIA L20"]),
        ("0,-1,1", ["NVIDIA H200"]),  # CUDA stops at the first it does not know
        ("GPU-", []),  # not unique
        ("", []),
    ],
)
@pytest.mark.usefixtures("nvml")
def test_nvml_and_what_the_variable_leaves(visible: str | None, names: list[str]) -> None:
    found, source = detect({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert source == "NVML"
    assert [device.name for device in found] == names
    assert all(device.memory_gib in (pytest.approx(140.4), pytest.approx(44.99)) for device in found)


def test_a_library_without_a_driver_leaves_it_to_the_command(
    nvml: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise nvml.NVMLError

    nvml.nvmlInit = fail
    text = "NVIDIA H200, 143771, 9.0, GPU-aa\nNVIDIA GB10, [N/A], 12.1, GPU-bb\nbroken\n"
    monkeypatch.setattr(devices, "_run", lambda argv: text if argv[0] == "nvidia-smi" else "")
    found, source = detect({})
    assert source == "nvidia-smi"
    assert found[0] == Device("NVIDIA H200", 143771 / 1024, (9, 0), "GPU-aa")
    assert found[1] == Device("NVIDIA GB10", uuid="GPU-bb")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"gpu_data": 3}', '[{"asic": []}]', "[" * 5000])
def test_a_machine_without_gpus(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(devices, "_run", lambda argv: text if argv[0] == "amd-smi" else "")
    assert detect({})[0] == []


def test_amds_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    text = json.dumps([{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}}])
    monkeypatch.setattr(devices, "_run", lambda argv: text if argv[0] == "amd-smi" else "")
    found, source = detect({})
    assert [device.name for device in found] == ["AMD Instinct MI300X"]
    assert "not tried" in source


def machine(monkeypatch: pytest.MonkeyPatch, *found: Device) -> gpus.Gpus:
    monkeypatch.setattr(own_gpus, "detect", lambda: (list(found), "test"))
    return own_gpus.this_machine()


def test_this_machines_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    known = machine(monkeypatch, H200, H200)
    assert (known.gpu.name, known.count) == ("h200-141gb", 2)
    made = machine(monkeypatch, L20).gpu
    assert (made.name, made.memory_gib, made.compute_capability) == ("nvidia-l20", pytest.approx(44.06), (8, 9))
    assert "fp8" in made.dtypes
    assert gpus.parse_gpus("nvidia-l20:2").gpu is made
    # Called as one of the catalogue, but with half as much memory again.
    larger = machine(monkeypatch, Device("NVIDIA H20", 140.0, (9, 0))).gpu
    assert larger.name == "nvidia-h20"
    assert larger.memory_gib > 130


def test_machines_that_leave_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="no GPU was found"):
        machine(monkeypatch)
    with pytest.raises(UsageError, match="different GPUs: NVIDIA H200, NVIDIA L20"):
        machine(monkeypatch, H200, L20)
    with pytest.raises(SourceError, match="does not say enough"):
        machine(monkeypatch, Device("AMD Instinct MI300X"))


FILE = '[[gpus]]\nname = "l20-48gb"\nmemory_gib = 44.5\ncompute_capability = "8.9"\ndevice_names = ["NVIDIA L20"]\n'


def plan(pairs: Path, *options: str) -> Any:
    argv = ["serve", str(pairs / "dflash-zlab"), "--verifier", str(pairs / "verifier"), "--dry-run", "--format", "json"]
    return spectool(*argv, *options)


def test_a_users_card_is_planned_for(pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus.toml").write_text(FILE)
    done = plan(pairs, "--gpus", "l20-48gb:1", "--gpu-file", str(tmp_path / "gpus.toml"))
    assert done.code == 0, done.err
    found = json.loads(done.out)["plan"]
    assert found["memory"]["total"] == int(44.5 * 2**30)
    monkeypatch.setattr(gpus, "_added", [])
    assert plan(pairs, "--gpus", "l20-48gb:1").code == 2
    (tmp_path / "spectool.toml").write_text('gpu-file = "gpus.toml"\n')
    monkeypatch.chdir(tmp_path)
    assert plan(pairs, "--gpus", "l20-48gb:1").code == 0


def test_a_users_card_takes_the_place_of_a_known_one(tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_text(FILE.replace("l20-48gb", "l4"))
    own_gpus.read_gpu_file(str(tmp_path / "g.toml"))
    assert gpus.parse_gpus("l4").gpu.memory_gib == 44.5
    assert len([gpu for gpu in gpus.catalogue() if gpu.name == "l4"]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("44.5", "-1.0"), "memory_gib"),
        (("44.5", '"44"'), "memory_gib"),
        (("l20-48gb", "L 20"), "name"),
        (('"8.9"', '"sm89"'), "compute_capability"),
        (("name", "nam"), "name"),
    ],
)
def test_files_that_describe_no_card(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    (tmp_path / "g.toml").write_text(FILE.replace(*change, 1))
    with pytest.raises(UsageError, match=message):
        own_gpus.read_gpu_file(str(tmp_path / "g.toml"))
