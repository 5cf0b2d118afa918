"""Defaults for requests that a server with a drafter refuses.

vLLM takes defaults from the verifier's generation_config.json (config/model.py, get_diff_sampling_param), and with a
drafter it refuses every request with min_p above 0 or a logit_bias (sampling_params.py, _validate_spec_decode; 0.32 and
0.33): together, a server that refuses every request which does not say otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spectool.errors import RefusedError
from spectool.planning import flags
from spectool.planning.command import Flag

_OVERRIDE = "--override-generation-config"
_WHERE = "--generation-config"
_SOURCE = "vllm/sampling_params.py, _validate_spec_decode; vllm/config/model.py, get_diff_sampling_param"


def sampling_flags(defaults: Mapping[str, Any], words: Sequence[str]) -> list[Flag]:
    """Return the flag that takes a refused default back, where the verifier has one.

    Args:
        defaults: the verifier's generation_config.json; empty where it has none.
        words: the user's own flags.

    Raises:
        RefusedError: the user's own override sets one.

    """
    own = _object(flags.value_of(words, _OVERRIDE))
    for key in ("min_p", "logit_bias"):
        if own.get(key):
            raise RefusedError(
                f"{_OVERRIDE} sets {key}, and a server with a drafter refuses every request with it",
                hint=f"Leave {key} out.",
            )
    share = defaults.get("min_p")
    if isinstance(share, bool) or not isinstance(share, int | float) or share <= 0:
        return []
    if flags.value_of(words, _WHERE) not in (None, "auto") or "min_p" in own:
        return []
    reason = (
        f"the verifier's generation_config.json says min_p {share}, and a server with a drafter refuses every request "
        "with it"
    )
    if own:
        raise RefusedError(reason, hint=f"Add it to yours: {_OVERRIDE} '{json.dumps({**own, 'min_p': 0})}'.")
    return [Flag((_OVERRIDE, json.dumps({"min_p": 0})), reason, _SOURCE)]


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
