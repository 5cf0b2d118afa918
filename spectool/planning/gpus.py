"""The GPUs spectool can plan for (`spectool/data/gpus.json`), and what `--gpus NAME:COUNT` means."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from spectool.errors import QuestionError, UsageError
from spectool.resources import package_data

_OPTION = re.compile(r"(?P<name>[^:]+)(?::(?P<count>[1-9][0-9]{0,3})(?:x(?P<nodes>[1-9][0-9]{0,2}))?)?")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    `memory_gib` is the total vLLM sees in GiB, with `memory_from` saying where the figure comes from;
    `compute_capability` as CUDA writes it; `dtypes` those the tensor cores compute in.
    """

    name: str
    aliases: tuple[str, ...]
    device_names: tuple[str, ...]
    memory_gib: float
    memory_from: str
    compute_capability: tuple[int, int]
    dtypes: tuple[str, ...]

    @property
    def memory(self) -> int:
        """Total memory in bytes."""
        return int(self.memory_gib * 2**30)


@dataclass(frozen=True, slots=True)
class Gpus:
    """Equal GPUs: `count` of them in all, spread evenly over `nodes` machines."""

    gpu: Gpu
    count: int
    nodes: int = 1

    def __str__(self) -> str:
        spread = f" on {self.nodes} machines" if self.nodes > 1 else ""
        return f"{self.count} x {self.gpu.name}{spread}"

    @property
    def per_node(self) -> int:
        """GPUs in each machine."""
        return self.count // self.nodes


_added: list[Gpu] = []


def add_gpus(gpus: Sequence[Gpu]) -> None:
    """Add cards to those known here; one of a known name takes its place."""
    _added.extend(gpus)


def catalogue() -> tuple[Gpu, ...]:
    """Return all known GPUs, those that were added first."""
    own = {gpu.name: gpu for gpu in _added}
    return (*own.values(), *(gpu for gpu in _shipped() if gpu.name not in own))


@cache
def _shipped() -> tuple[Gpu, ...]:
    document = json.loads(package_data("gpus.json").read_text(encoding="utf-8"))
    return tuple(
        Gpu(
            name=item["name"],
            aliases=tuple(item["aliases"]),
            device_names=tuple(item["device_names"]),
            memory_gib=float(item["memory_gib"]),
            memory_from=item["memory_from"],
            compute_capability=_capability(item["compute_capability"]),
            dtypes=tuple(item["dtypes"]),
        )
        for item in document["gpus"]
    )


def parse_gpus(text: str) -> Gpus:
    """Read `NAME`, `NAME:COUNT` or `NAME:COUNTxMACHINES`; the count, per machine, is 1 where none is given.

    Raises:
        QuestionError: the name leaves open which of several GPUs is meant (`a100` comes with 40 and 80 GB).
        UsageError: it is malformed, or no known GPU.

    """
    match = _OPTION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--gpus {text}: write NAME:COUNT, such as a100-80gb:2, or h200:8x2 for two machines")
    count, nodes = int(match["count"] or 1), int(match["nodes"] or 1)
    return Gpus(gpu_named(match["name"], count), count * nodes, nodes)


def gpu_named(text: str, count: int = 1) -> Gpu:
    """Return the GPU of this name or alias; capitals, spaces and underscores do not matter.

    Raises:
        QuestionError: several begin with this name.
        UsageError: none has it.

    """
    wanted = _normal(text)
    for gpu in catalogue():
        if wanted in (gpu.name, *gpu.aliases) or wanted in map(_normal, gpu.device_names):
            return gpu
    family = [gpu for gpu in catalogue() if f"{gpu.name}-".startswith(f"{wanted}-")]
    if len(family) == 1:
        return family[0]
    if family:
        offers = " or ".join(f"{gpu.name}:{count}" for gpu in family)
        raise QuestionError(
            f"--gpus {text}: there are several, and they differ in memory: "
            + ", ".join(f"{gpu.name} ({gpu.memory_gib:g} GiB)" for gpu in family),
            hint=f"Say which: --gpus {offers}.",
        )
    names = [name for gpu in catalogue() for name in (gpu.name, *gpu.aliases)]
    near = difflib.get_close_matches(wanted, names, n=4, cutoff=0.5)
    known = near or sorted(gpu.name for gpu in catalogue())
    hint = f"{'Near' if near else 'Known'}: {', '.join(known)}. Others are described in a file: --gpu-file FILE."
    if turned := re.match(r"(\d+)\s*x\s*(?=\D)", wanted):
        hint = f"The name comes first: --gpus {wanted[turned.end() :]}:{turned[1]}."
    raise UsageError(f"--gpus {text}: spectool knows no such GPU", hint=hint)


def _normal(text: str) -> str:
    return re.sub(r"[\s_]+", "-", text.strip().lower())


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
