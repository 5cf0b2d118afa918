"""Read a rope configuration in either generation of keys: `rope_parameters`, or `rope_theta` with `rope_scaling`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spectool.dialects.record import Gap, Question
from spectool.dialects.sources import Resolver
from spectool.drafter.model import Rope
from spectool.formats.dialect import RopePolicy
from spectool.formats.lookup import is_number

# Multimodal position keys: text-only drafters have no use for them, and no text trainer reads them.
MULTIMODAL = ("mrope_section", "mrope_interleaved", "xdrope_section")
# Full-width rope types, for which a trainer's rotary class decides the width by head size alone.
_NOT_SCALING = {"rope_theta", "rope_type", "type", "partial_rotary_factor", "rope_dim", *MULTIMODAL}


def rope_keys(decoder: Mapping[str, Any]) -> dict[str, Any] | None:
    """Merge both generations of keys into one flat dict; None when `rope_parameters` is nested per layer type."""
    parameters = decoder.get("rope_parameters")
    if not isinstance(parameters, dict):
        parameters = decoder.get("rope_scaling")
    keys = dict(parameters) if isinstance(parameters, dict) else {}
    if any(isinstance(value, dict) for value in keys.values()):
        return None
    for name in ("rope_theta", "partial_rotary_factor"):
        if keys.get(name) is None and decoder.get(name) is not None:
            keys[name] = decoder[name]
    if "rope_type" not in keys and "type" in keys:
        keys["rope_type"] = keys["type"]
    return {name: value for name, value in keys.items() if value is not None}


def scaling_of(keys: Mapping[str, Any]) -> tuple[tuple[str, object], ...]:
    """Return what goes beyond plain rope, sorted, as `Rope.scaling` holds it; empty for the default type."""
    kind = keys.get("rope_type", "default")
    if kind == "default":
        return ()
    extra = {name: _frozen(value) for name, value in keys.items() if name not in _NOT_SCALING}
    return tuple(sorted({**extra, "rope_type": kind}.items()))


def _frozen(value: object) -> object:
    if isinstance(value, list):
        return tuple(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def read_rope(decoder: Mapping[str, Any], policy: RopePolicy, head_dim: int, resolver: Resolver) -> Rope | None:
    """Return the rope the producer trained with; notes gaps, assumptions and questions on the resolver."""
    keys = rope_keys(decoder)
    if keys is None:
        resolver.gaps.append(Gap("rope", "malformed", "rope_parameters is nested per layer type, one rope is expected"))
        return None
    if not isinstance(keys.get("rope_type", ""), str):
        resolver.gaps.append(Gap("rope", "malformed", f"rope_type is {keys['rope_type']!r}, not a name"))
        return None
    theta = resolver.settings.get("rope.theta", keys.get("rope_theta"))
    flat = decoder.get("rope_theta")
    if "rope.theta" not in resolver.settings and is_number(flat) and is_number(theta) and flat != theta:
        resolver.gaps.append(
            Gap("rope", "conflict", f"rope_theta is {flat:.12g} and rope_parameters.rope_theta is {theta:.12g}")
        )
    if theta is None:
        why = "no rope_theta is written, and readers assume 10000 or 1000000"
        resolver.questions.append(Question("rope.theta", why, (10000, 1000000)))
        return None
    if not is_number(theta) or not theta > 0:
        resolver.gaps.append(Gap("rope", "malformed", f"rope_theta is {theta!r}, not a positive number"))
        return None
    if policy.policy == "base-only" and scaling_of(keys):
        resolver.assume("rope", "plain", f"the trainer takes rope_theta alone; {keys['rope_type']} is the verifier's")
        keys = {"rope_theta": theta, "partial_rotary_factor": keys.get("partial_rotary_factor", 1.0)}
    width = _rotary_dim(keys, policy, head_dim, resolver)
    if width is None:
        return None
    keys = _amplitude(keys, resolver)
    place = "rope_parameters" if decoder.get("rope_parameters") else "rope_theta"
    resolver.note("rope", keys, "--set rope.theta" if "rope.theta" in resolver.settings else place)
    interleaved = decoder.get("is_neox_style") is False or decoder.get("rope_is_neox_style") is False
    return Rope(float(theta), width, scaling_of(keys), interleaved=interleaved)


def _amplitude(keys: dict[str, Any], resolver: Resolver) -> dict[str, Any]:
    """Settle yarn's factor on queries and keys where readers of `mscale` disagree.

    transformers divides the two amplitudes (1.0 for equal ones); vLLM before 0.30 and vllm-ascend take
    0.1 ln(factor) + 1 whatever the keys say. Which one the producer trained with no file tells.
    """
    if keys.get("rope_type") != "yarn" or not keys.get("mscale") or not keys.get("mscale_all_dim"):
        return keys
    stated = resolver.settings.get("rope.attention_factor", keys.get("attention_factor"))
    if stated is None:
        factor, scale, of_all = keys.get("factor"), keys["mscale"], keys["mscale_all_dim"]
        if not (is_number(factor) and factor > 1 and is_number(scale) and is_number(of_all)):
            return keys  # nothing to choose from: the decoder's own rules speak
        ratio, plain = _mscale(factor, scale) / _mscale(factor, of_all), _mscale(factor, 1.0)
        why = "yarn with mscale: transformers (and vLLM from 0.30 on) take the first value, vLLM before the second"
        resolver.questions.append(Question("rope.attention_factor", why, (f"{ratio:.9g}", f"{plain:.9g}")))
        return keys
    if "attention_factor" not in keys:
        resolver.assume("rope", f"attention_factor {stated:g}", "--set rope.attention_factor")
    rest = {name: value for name, value in keys.items() if name not in {"mscale", "mscale_all_dim"}}
    return {**rest, "attention_factor": float(stated)}


def _mscale(factor: float, scale: float) -> float:
    return 0.1 * scale * math.log(factor) + 1.0


def _rotary_dim(keys: Mapping[str, Any], policy: RopePolicy, head_dim: int, resolver: Resolver) -> int | None:
    written = keys.get("partial_rotary_factor", 1.0)
    partial = resolver.settings.get("rope.partial", written)
    if not is_number(partial) or not 0 < partial <= 1:
        resolver.gaps.append(Gap("rope", "malformed", f"partial_rotary_factor is {partial!r}, not in (0, 1]"))
        return None
    if "rope.partial" in resolver.settings:
        if partial != written:
            resolver.assume("rope", f"{partial:g}", f"--set rope.partial overrides partial_rotary_factor {written:g}")
    elif policy.policy == "asked" and partial != 1.0:
        why = (
            "partial_rotary_factor may be the verifier's, copied, or the width the drafter was trained with; which "
            "rotary class this trainer uses is not known"
        )
        resolver.questions.append(Question("rope.partial", why, ("1", f"{partial:g}")))
    elif policy.policy != "as-written" and partial != 1.0:
        resolver.assume(
            "rope",
            "whole heads are rotated",
            f"partial_rotary_factor {partial:g} is taken for the verifier's: the trainer's rotary embedding ignores "
            f"it (--set rope.partial={partial:g} if this drafter was trained with it)",
        )
        partial = 1.0
    return int(head_dim * partial)
