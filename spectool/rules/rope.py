"""ROP: the drafter's rotary embedding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spectool.formats.lookup import lookup
from spectool.rules.context import Context
from spectool.rules.helpers import differs, disagreeing, engine_refuses
from spectool.rules.registry import Hit, rule


@rule(
    "ROP001",
    "rope-unreadable",
    summary="The rope configuration cannot be read, or says two things.",
    why="A wrong base or width loads and drafts, with an acceptance that falls with length.",
    fix="Write one flat rope_parameters with rope_type and rope_theta.",
    references=("vLLM 0.33 model_executor/layers/rotary_embedding/__init__.py",),
)
def rope_unreadable(context: Context) -> Iterator[Hit]:
    """Fires for gaps and for what vLLM trips over."""
    gaps = context.gaps("rope")
    for gap in gaps:
        yield Hit(gap.detail)
    if not gaps:
        yield from engine_refuses(context, "ROP001")


@rule(
    "ROP002",
    "rope-differs",
    scope="engine",
    summary="vLLM would rotate other dimensions, or by another base, than the drafter was trained with.",
    why=(
        "partial_rotary_factor inherited from the verifier is ignored by the trainers' rotary embedding and obeyed by "
        "vLLM: acceptance 2.5 became 1.0 to 1.4."
    ),
    fix="Write one rope_parameters as trained, with rope_type and rope_theta; `spectool convert` does.",
    references=("github.com/vllm-project/speculators issues 613, 738", "github.com/deepseek-ai/DeepSpec issues 71, 72"),
)
def rope_differs(context: Context) -> Iterator[Hit]:
    """Fires on any difference, unless a wrong head size is the fault, or rule CFG005 asks which rope was trained."""
    if any(question.key.startswith("rope.") for question in context.reading.questions):
        return
    if context.drafter.rope is not None and not list(disagreeing(context, "head_dim", "num_heads")):
        yield from differs(context, "rope", "rope is not run as it was trained", _rope_fix(context))


def _rope_fix(context: Context) -> str | None:
    """Return what to write for the difference there is; None for a base or a scaling."""
    trained, run = context.drafter.rope, context.engine.drafter.rope if context.engine.drafter is not None else None
    if trained is None or run is None:
        return None
    if trained.rotary_dim != run.rotary_dim:
        part = run.rotary_dim / (context.drafter.dimensions.head_dim or 1)
        return (
            "Remove the inherited keys (`spectool convert` does). If the drafter really was trained so: "
            f"--set rope.partial={part:g}."
        )
    if trained.interleaved != run.interleaved:
        where = "transformer_layer_config" if "speculators_model_type" in context.view.config else "config.json"
        said = str(not trained.interleaved).lower()
        return f"Write `is_neox_style: {said}` in {where}, the key vLLM reads (0.29 or newer); `spectool convert` does."
    return None


@rule(
    "ROP003",
    "rope-base-differs",
    severity="note",
    summary="The drafter rotates by another base than its verifier, or by a scaled one.",
    why=(
        "10000 is what configuration classes fill in. Exporters that looked for rope_theta where transformers 5 has "
        "none wrote it for drafters trained with the verifier's base: a factor of 100, and nothing but the acceptance "
        "shows it. Other drafters really were trained with a base of their own."
    ),
    fix="Ask the publisher. If the verifier's base was trained: --set rope.theta=N when converting.",
    references=("github.com/NVIDIA/Model-Optimizer issues 2221, 1621",),
)
def base_differs(context: Context) -> Iterator[Hit]:
    """Compares bases where nothing scales the drafter's, and names a scaling that the verifier has not.

    An answer with --set ends the question.
    """
    rope, verifier = context.drafter.rope, context.verifier
    stated = context.reading.evidence.get("rope")
    if rope is None or verifier is None or not verifier.rope_thetas or (stated and stated.where.startswith("--set")):
        return
    kind, config = dict(rope.scaling).get("rope_type"), context.verifier_config
    if kind is not None and config is not None and kind not in _kinds(config, verifier.nested_under):
        yield Hit(
            f"rope_type is {kind}, {verifier.name}'s is {' and '.join(sorted(_kinds(config, verifier.nested_under)))}"
        )
    if not rope.scaling and rope.theta not in verifier.rope_thetas:
        theirs = " and ".join(f"{theta:.12g}" for theta in verifier.rope_thetas)
        yield Hit(f"rope_theta is {rope.theta:.12g}, {verifier.name}'s is {theirs}")


def _kinds(config: Mapping[str, Any], nested_under: str | None) -> set[str]:
    """Return the rope types of a verifier: one, or one per kind of layer."""
    holder = lookup(config, nested_under) if nested_under else config
    keys = holder.get("rope_parameters") or holder.get("rope_scaling") or {}
    parts = [part for part in keys.values() if isinstance(part, dict)] or [keys]
    return {str(part.get("rope_type", part.get("type", "default"))) for part in parts}
