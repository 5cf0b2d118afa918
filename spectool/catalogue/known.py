"""Known drafters (`spectool/data/drafters.json`) and how a folder is recognised as one of them.

Nothing here decides anything: a folder is read from its own files. The catalogue says what it looks like, and what was
published about that.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from spectool.drafter.model import Drafter
from spectool.formats.verifier import VerifierView
from spectool.resources import package_data

# A folder is recognised by these; at least the marked ones must have been seen of the published one.
_FIELDS = (
    *("aux_layers", "mask_token_id", "num_layers", "hidden_size", "intermediate_size", "vocab_size", "block_size"),
    *("sliding_layers", "sliding_window"),
)
_NEEDED = {"aux_layers", "num_layers", "hidden_size"}


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Published acceptance lengths (tokens per round, bonus token included) of one workload class at one K."""

    workload: str
    speculative_tokens: int
    low: float
    median: float
    high: float
    points: int
    source: str

    @property
    def spread(self) -> str:
        """The workload and its figures: `code 3.41 to 3.94`."""
        spread = f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"
        return f"{self.workload} {spread}"

    def __str__(self) -> str:
        return f"{self.spread} at K {self.speculative_tokens}"


@dataclass(frozen=True, slots=True)
class KnownDrafter:
    """One published drafter, at one revision where that is known. `seen` holds the fields of its config that were."""

    drafter: str
    verifier: str
    method: str
    dialect: str
    certainty: str
    revision: str | None
    min_vllm: str | None
    speculative_tokens: int | None
    verifier_layers: int | None
    seen: dict[str, Any]
    acceptance: tuple[Acceptance, ...]
    sources: tuple[str, ...]


@cache
def known_drafters() -> tuple[KnownDrafter, ...]:
    """Return the catalogue, in the order of its file."""
    table = json.loads(package_data("drafters.json").read_text(encoding="utf-8"))
    return tuple(_entry(row) for row in table["drafters"])


def _entry(row: dict[str, Any]) -> KnownDrafter:
    seen = {field: row[field] for field in _FIELDS if field in row}
    if "aux_layers" in seen:
        seen["aux_layers"] = tuple(seen["aux_layers"])
    return KnownDrafter(
        drafter=row["drafter"],
        verifier=row["verifier"],
        method=row["method"],
        dialect=row["dialect"],
        certainty=row["certainty"],
        revision=row.get("revision"),
        min_vllm=row.get("min_vllm"),
        speculative_tokens=row.get("speculative_tokens"),
        verifier_layers=row.get("verifier_layers"),
        seen=seen,
        acceptance=tuple(Acceptance(**item) for item in row.get("acceptance", ())),
        sources=tuple(row["sources"]),
    )


def for_verifier(name: str) -> list[KnownDrafter]:
    """Return the drafters published for a verifier: its Hub id, or its name without the organisation.

    Upper and lower case are the same to the Hub.
    """
    wanted = name.lower()
    return [
        item for item in known_drafters() if wanted in {item.verifier.lower(), item.verifier.lower().rpartition("/")[2]}
    ]


def like_verifier(view: VerifierView) -> list[KnownDrafter]:
    """Return the drafters whose verifier has this folder's sizes: what a local copy without a name may be."""
    sizes = (view.num_hidden_layers, view.hidden_size, view.vocab_size)
    return [
        item
        for item in known_drafters()
        if (item.verifier_layers, item.seen.get("hidden_size"), item.seen.get("vocab_size")) == sizes
    ]


def recognise(drafter: Drafter) -> list[KnownDrafter]:
    """Return the known drafters a folder looks like: every field that was seen of them is the folder's."""
    size = drafter.dimensions
    windows = [item.window for item in drafter.attention if item.window is not None]
    ours = {
        "aux_layers": tuple(sorted(drafter.aux_layers or ())),
        "mask_token_id": drafter.mask_token_id,
        "num_layers": size.num_layers,
        "hidden_size": size.hidden_size,
        "intermediate_size": size.intermediate_size,
        "vocab_size": size.vocab_size,
        "block_size": drafter.block_size,
        "sliding_layers": len(windows),
        "sliding_window": windows[0] if windows else None,
    }
    return [
        item
        for item in known_drafters()
        if item.method == drafter.method
        and set(item.seen) >= _NEEDED
        and all(ours[field] == value for field, value in item.seen.items())
    ]


def republished(names: Collection[str], drafter: Drafter) -> list[KnownDrafter]:
    """Return other revisions of these repositories whose layers differ: the name alone is then no identity."""
    ours = tuple(sorted(drafter.aux_layers or ()))
    others = [item for item in known_drafters() if item.drafter.lower() in names and "aux_layers" in item.seen]
    return [item for item in others if item.seen["aux_layers"] != ours]


@dataclass(frozen=True, slots=True)
class Published:
    """What was published about a drafter.

    `looks_like` are the entries it looks like, `others` those of the same repositories with other layers. Of a
    repository of the Hub, `commit` says whether it is one that was seen: None where the catalogue names none, or the
    drafter is a folder.
    """

    looks_like: tuple[KnownDrafter, ...] = ()
    others: tuple[KnownDrafter, ...] = ()
    commit: Literal["known", "another"] | None = None


def published(
    drafter: Drafter, *, repository: str | None = None, commit: str | None = None, verifiers: Collection[str] = ()
) -> Published:
    """Say what is known of a drafter.

    Several published drafters may look alike; of those, the one whose repository this is counts, else those for its
    verifier.

    Args:
        drafter: the trainer's reading.
        repository: the Hub repository it was read from, at `commit`; None for a folder.
        commit: see `repository`.
        verifiers: names of its verifier, as the drafter or the user states them: Hub ids, or names of folders.

    """
    found, own = recognise(drafter), (repository or "").lower()
    wanted = {name.rpartition("/")[2].lower() for name in verifiers}
    here = [item for item in found if item.drafter.lower() == own]
    beside = [item for item in found if item.verifier.rpartition("/")[2].lower() in wanted]
    found = here or beside or found
    names = {item.drafter.lower() for item in found} | ({own} if own else set())
    seen = [item.revision for item in known_drafters() if item.drafter.lower() == own and item.revision]
    state: Literal["known", "another"] | None = None
    if seen and commit is not None:
        state = "known" if any(commit.startswith(revision) for revision in seen) else "another"
    return Published(tuple(found), tuple(republished(names, drafter)), state)
