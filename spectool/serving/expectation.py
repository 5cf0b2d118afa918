"""What a drafter's acceptance is held against: what the user says, a profile measured, or somebody published."""

from __future__ import annotations

import json
from collections.abc import Sequence

from spectool.formats.profile import Profile
from spectool.planning import flags
from spectool.planning.command import SPECULATIVE
from spectool.serving.acceptance import Expected
from spectool.serving.metrics import Snapshot
from spectool.speed.positions import Positions, of_tokens, published_positions
from spectool.speed.profile import measured_tokens
from spectool.speed.published import given, published


def published_expectation(names: Sequence[str], argv: Sequence[str], workload: str | None = None) -> Expected | None:
    """Return the lowest acceptance length published for a drafter; None where none of its K or more is known.

    It was measured with other prompts than the check's, so falling short of it is said and fails nothing.

    Args:
        names: the drafter's: `org/name`, or a folder that is called like its repository.
        argv: the command that will run, which says how many tokens are drafted per round.
        workload: one of `spectool.speed.published.WORKLOADS`; all of them where none is given.

    """
    speculative = json.loads(flags.value_of(argv, SPECULATIVE) or "{}")
    k = speculative.get("num_speculative_tokens")
    if not isinstance(k, int):
        return None
    found = published(names, workload, k)
    if found is None:
        return None
    shares = published_positions(names, workload, k)
    return Expected(found.at(k)[0], f"the lowest {found.basis}", binding=False, positions=shares)


def expectation(
    k: int, length: float | None, profile: Profile | None, names: Sequence[str], workload: str | None = None
) -> tuple[Expected | None, Positions | None]:
    """Return what `k` drafts per round are held against: the length, and the share of each position.

    A given length wins, then a profile, then what was published for the drafter. The last was measured with other
    prompts: falling short of it fails nothing.

    Args:
        k: drafts per round as they were counted; 0 where there were none.
        length: given by the user.
        profile: measured by a sweep.
        names: the drafter's; empty where it is not known.
        workload: of the published figures.

    """
    if k < 1:
        return (None if length is None else Expected(length, "--expect")), None
    if length is not None:
        possible = length <= k + 1.0
        return Expected(length, "--expect"), of_tokens(given(length, k, "--expect"), k) if possible else None
    measured = measured_tokens(profile, k) if profile is not None else None
    if measured is not None:
        return Expected(measured.at(k)[0], f"the lowest {measured.basis}"), of_tokens(measured, k)
    found = published(names, workload, k)
    if found is None:
        return None, None
    return Expected(found.at(k)[0], f"the lowest {found.basis}", binding=False), published_positions(names, workload, k)


def counted_k(seen: Snapshot | None) -> int:
    """Return how many drafts per round were counted; 0 where none were."""
    if seen is None or seen.drafts < 1:
        return 0
    return max(len(seen.per_position), -(-seen.draft_tokens // seen.drafts))
