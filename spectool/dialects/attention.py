"""How each draft layer was trained to attend, from `layer_types` and the producer's flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectool.dialects.record import Gap
from spectool.dialects.sources import Resolver
from spectool.drafter.model import Attention
from spectool.formats.dialect import AttentionPolicy
from spectool.formats.lookup import MISSING, is_int, lookup

SLIDING, FULL = "sliding_attention", "full_attention"


def read_attention(
    decoder: Mapping[str, Any], policy: AttentionPolicy, layers: int, declared: int, resolver: Resolver
) -> tuple[Attention, ...]:
    """Return one `Attention` per layer that the file has tensors for.

    `layer_types` is held against the number of layers the config declares: which tensors exist is another rule's
    business.
    """
    kinds = decoder.get("layer_types") if policy.layer_types == "read" else None
    if kinds is None:
        kinds = [FULL] * layers
    elif not isinstance(kinds, list) or any(kind not in (SLIDING, FULL) for kind in kinds):
        resolver.gaps.append(Gap("attention", "malformed", f"layer_types must list {FULL} or {SLIDING}"))
        kinds = [FULL] * layers
    elif len(kinds) != declared:
        detail = f"layer_types has {len(kinds)} entries for {declared} layers"
        resolver.gaps.append(Gap("attention", "malformed", detail))
    forced = SLIDING not in kinds and any(lookup(resolver.config, flag) is True for flag in policy.all_sliding)
    if forced:
        kinds = [SLIDING] * len(kinds)
    window = next((lookup(resolver.config, path) for path in policy.window if _stated(resolver, path)), None)
    window = decoder.get("sliding_window") if window is None else window
    if SLIDING in kinds and not (is_int(window) and window > 0):
        resolver.gaps.append(
            Gap("attention", "missing", "layer_types has sliding_attention, but sliding_window is no number")
        )
        window = None
    override = _override(policy, resolver)
    sliding_causal = policy.sliding == "causal" and not any(
        lookup(resolver.config, flag) is True for flag in policy.sliding_bidirectional
    )
    if forced:
        sliding_causal = policy.full == "causal"  # the flag narrows what a layer sees, it does not turn it causal
    trained = {FULL: Attention(None, policy.full == "causal"), SLIDING: Attention(window, sliding_causal)}
    if override is not None:
        trained = {kind: Attention(item.window, override) for kind, item in trained.items()}
    # A list of the wrong length is reported above; read as many layers as there are.
    padded = [*kinds, *[FULL] * layers][:layers]
    return tuple(trained[kind] for kind in padded)


def _stated(resolver: Resolver, path: str) -> bool:
    return lookup(resolver.config, path) is not MISSING


def _override(policy: AttentionPolicy, resolver: Resolver) -> bool | None:
    if "causal" in resolver.settings:
        answer = bool(resolver.settings["causal"])
        resolver.note("attention", answer, "--set causal")
        return answer
    stated = {path: value for path in policy.causal if (value := lookup(resolver.config, path)) is not MISSING}
    for path, value in stated.items():
        if not isinstance(value, bool):
            resolver.gaps.append(Gap("attention", "malformed", f"{path} is {value!r}, not true or false"))
            return None
    if len(set(stated.values())) > 1:
        resolver.gaps.append(Gap("attention", "conflict", f"{' and '.join(stated)} disagree"))
    for path, value in stated.items():
        resolver.note("attention", value, path)
        return bool(value)
    return None
