"""The attention backend vLLM takes for draft layers, by release and GPU (`spectool/data/planning/attention.json`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from spectool.drafter.model import Drafter
from spectool.errors import RefusedError
from spectool.planning.gpus import Gpu
from spectool.planning.models import UnknownError
from spectool.planning.own import Own
from spectool.resources import package_data


@dataclass(frozen=True, slots=True)
class Layers:
    """What a backend must support: the GPU's compute capability, and the drafter's heads and cache.

    `release` is major and minor; `both_ways` whether a layer attends to later tokens too; `dtype` that of the KV cache
    as vLLM's flag spells it.
    """

    release: tuple[int, int]
    capability: tuple[int, int]
    head_dim: int
    both_ways: bool
    dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class Chosen:
    """vLLM's choice, None where nothing fits, and what it passed over before, with the reason."""

    backend: str | None
    passed: tuple[tuple[str, str], ...]


def known(name: str) -> bool:
    """Say whether the data file describes a backend."""
    return name in _document()["backends"]


def looks_both_ways(name: str, release: tuple[int, int]) -> bool | None:
    """Say whether a backend attends to later tokens too; None for one that was not read."""
    document = _document()
    everyone = {each: item["both_ways"] for each, item in document["backends"].items()} | document["others"][
        "both_ways"
    ]
    if name not in everyone:
        return None
    since = everyone[name]
    return since is not None and release >= _release(since)


def dtypes(kind: Literal["plain", "read", "latent"]) -> frozenset[str]:
    """Return dtypes of a KV cache: as wide as the model, read for draft layers, or of latent attention only."""
    return frozenset(_document()["dtypes"][kind])


def chosen(layers: Layers) -> Chosen:
    """Return what vLLM takes where no backend is named."""
    passed: list[tuple[str, str]] = []
    for name in _order(layers):
        why = obstacle(name, layers)
        if why is None:
            return Chosen(name, tuple(passed))
        passed.append((name, why))
    return Chosen(None, tuple(passed))


def obstacle(name: str, layers: Layers) -> str | None:
    """Return why a known backend cannot run such layers; None where it can."""
    backend = _document()["backends"][name]
    major, minor = layers.capability
    least = next(item["capability"] for item in backend["least"] if layers.release >= _release(item["from"]))
    heads = backend["heads"]
    if layers.both_ways and not looks_both_ways(name, layers.release):
        return f"looks both ways from vLLM {backend['both_ways']} on"
    if [major, minor] < least:
        return f"needs compute capability {least[0]}.{least[1]}"
    if (isinstance(heads, list) and layers.head_dim not in heads) or (
        (heads == "up to 256" and layers.head_dim > 256) or (heads == "from 32" and layers.head_dim < 32)
    ):
        return f"has no kernel for heads of {layers.head_dim}"
    if layers.dtype in dtypes("plain"):
        return None
    gpus: list[int] = next(
        (item["capability"] for item in backend["fp8"] if layers.release >= _release(item["from"])), []
    )
    if layers.dtype not in backend["fp8_dtypes"] or major not in gpus:
        return f"takes no {layers.dtype} KV cache on compute capability {major}.{minor}"
    return None


def takes_nowhere(name: str, release: tuple[int, int], dtype: str) -> bool:
    """Say whether a known backend takes an fp8 KV cache on no GPU at all, in a release."""
    backend = _document()["backends"][name]
    gpus: list[int] = next((item["capability"] for item in backend["fp8"] if release >= _release(item["from"])), [])
    return dtype not in backend["fp8_dtypes"] or not gpus


def fault(name: str, layers: Layers) -> tuple[str, str] | None:
    """Return what is known against a backend that would run such layers, and what to name in its place."""
    for item in _document()["faults"]:
        if (
            item["backend"] == name
            and layers.both_ways
            and layers.capability[0] == item["capability"]
            and layers.release >= _release(item["from"])
            and obstacle(item["instead"], layers) is None
        ):
            return item["why"], item["instead"]
    return None


def order_source() -> str:
    """Say where vLLM's order comes from."""
    return str(_document()["order_source"])


def _order(layers: Layers) -> list[str]:
    for item in _document()["order"]:
        fits_gpu = item.get("capability") in (None, layers.capability[0])
        if layers.release >= _release(item["from"]) and fits_gpu and (layers.both_ways or not item.get("both_ways")):
            return list(item["backends"])
    return []


def _release(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


@cache
def _document() -> Any:
    return json.loads(package_data("planning", "attention.json").read_text(encoding="utf-8"))


def drafter_backend(drafter: Drafter, gpu: Gpu, version: str, own: Own) -> tuple[str, str]:
    """Return the backend the drafter's layers run on, and why no flag is needed for it.

    Raises:
        UnknownError: it is not known which.
        RefusedError: there is none, and vLLM would stop.

    """
    dtype = own.draft_kv_dtype or own.kv_dtype or "auto"
    both_ways = any(not layer.causal for layer in drafter.attention)
    if own.draft_backend is not None and own.draft_backend.lower() != "auto":
        return own.draft_backend.upper(), "named by you"
    if drafter.sinks or (dtype not in dtypes("plain") and not dtype.startswith("fp8")):
        what = "attention sinks" if drafter.sinks else f"a {dtype} KV cache"
        raise UnknownError(f"which attention backend runs a drafter with {what}")
    major, minor, *_ = (int(part) for part in version.split("."))
    layers = Layers((major, minor), gpu.compute_capability, drafter.dimensions.head_dim, both_ways, dtype)
    found = chosen(layers)
    passed = "; ".join(f"{name} {why}" for name, why in found.passed)
    if found.backend is None:
        raise RefusedError(
            f"no attention backend of vLLM {version} runs the drafter's layers on {gpu.name}: {passed}",
            hint="Leave --kv-cache-dtype at auto.",
        )
    look = "look both ways" if both_ways else "are causal"
    cache = "" if dtype in dtypes("plain") else f" with a KV cache of {dtype}, as the verifier's"
    if own.draft_kv_dtype is not None:
        cache = f" with a KV cache of {dtype}, as you say"
    gpus = ".".join(map(str, gpu.compute_capability))
    others = f" ({passed})" if passed else ""
    return found.backend, f"vLLM's own choice on compute capability {gpus} for layers that {look}{cache}{others}"
