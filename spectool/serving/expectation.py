"""What a drafter's acceptance is held against where the user names nothing: what was published for it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from spectool.planning import flags
from spectool.planning.command import SPECULATIVE
from spectool.serving.acceptance import Expected
from spectool.speed.published import published


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
    return Expected(found.at(k)[0], f"the lowest {found.basis}", binding=False)
