"""GPUs beyond the catalogue: those of a user's file, and those this machine has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from spectool.engine.devices import Device, detect
from spectool.errors import SourceError, UsageError
from spectool.planning.gpus import Gpu, Gpus, add_gpus, catalogue

AUTO = "auto"
# A card that is called the same and has more than this share more or less memory is another one (H20 and H20-3e).
_SAME_MEMORY = 0.05
# GiB that vLLM sees less than the driver tells: the largest difference seen (spectool/data/gpus.json).
_LESS = 0.93


def read_gpu_file(name: str) -> None:
    """Add the cards of a file to those `--gpus` knows.

    Raises:
        SourceError: it cannot be read or parsed.
        UsageError: it does not fit the format.

    """
    from pydantic import ValidationError  # noqa: PLC0415 - only with a file

    from spectool.formats.gpu_file import GpuFile  # noqa: PLC0415 - only with a file
    from spectool.schema_check.detect import read_document  # noqa: PLC0415 - only with a file

    content = read_document(Path(name), "deployment").content
    try:
        found = GpuFile.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the file"
        raise UsageError(f"{name}: {where}: {fault['msg']}") from None
    add_gpus(
        [
            Gpu(
                name=item.name,
                aliases=(),
                device_names=tuple(item.device_names),
                memory_gib=item.memory_gib,
                memory_from=f"yours, {Path(name).name}",
                compute_capability=_capability(item.compute_capability),
                dtypes=tuple(item.dtypes),
            )
            for item in found.gpus
        ]
    )


def this_machine() -> Gpus:
    """Return the GPUs this machine has, as the planner takes them.

    Raises:
        SourceError: none was found, or the driver did not say enough.
        UsageError: they differ.

    """
    found, source = detect()
    if not found:
        raise SourceError(f"no GPU was found here ({source})", hint="Name them: --gpus NAME:COUNT.")
    if len({device.name for device in found}) > 1:
        raise UsageError(
            f"this machine has different GPUs: {', '.join(sorted({device.name for device in found}))}",
            hint="Choose with CUDA_VISIBLE_DEVICES, or name them: --gpus NAME:COUNT.",
        )
    return Gpus(_as_planned(found), len(found))


def _as_planned(found: Sequence[Device]) -> Gpu:
    """Return the catalogue's entry, or one made of what the driver says."""
    device = found[0]
    for gpu in catalogue():
        if device.name in gpu.device_names and (
            device.memory_gib is None or abs(device.memory_gib - gpu.memory_gib) <= _SAME_MEMORY * gpu.memory_gib
        ):
            return gpu
    if device.memory_gib is None or device.capability is None:
        raise SourceError(
            f"spectool knows no {device.name}, and the driver does not say enough about it",
            hint="Describe it in a file: --gpu-file FILE.",
        )
    made = Gpu(
        name=re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-"),
        aliases=(),
        device_names=(device.name,),
        memory_gib=device.memory_gib - _LESS,
        memory_from=f"the driver's figure less {_LESS} GiB",
        compute_capability=device.capability,
        dtypes=("bf16", "fp16", "fp8") if device.capability >= (8, 9) else ("bf16", "fp16"),
    )
    add_gpus([made])
    return made


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
