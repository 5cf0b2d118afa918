"""ATT: how each draft layer attends."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.rules.context import Context
from spectool.rules.helpers import differs, disagreeing, engine_refuses
from spectool.rules.registry import Hit, rule

_DFLASH = "vLLM 0.33 model_executor/models/qwen3_dflash.py"


@rule(
    "ATT001",
    "attention-differs",
    scope="engine",
    summary="vLLM would attend in another way than the drafter was trained: causality or window.",
    why=(
        "Since vLLM 0.26 `sliding_window_non_causal: false` makes full-attention layers of a Speculators DFlash causal "
        "too; measured on z-lab's Qwen3-8B drafter it costs 10 to 15 % of the acceptance length, without an error."
    ),
    fix="Write layer_types, sliding_window and the causal flags as trained; `spectool convert` does.",
    references=("github.com/vllm-project/vllm issues 43445, 56692", _DFLASH),
)
def attention_differs(context: Context) -> Iterator[Hit]:
    """Fires on any difference per layer, unless the number of layers is the fault."""
    if not list(disagreeing(context, "num_layers")):
        yield from differs(context, "attention", "attention is not run as it was trained", _causal_fix(context))


def _causal_fix(context: Context) -> str | None:
    """Return what to write where causality alone differs, and is one and the same for all layers; else None."""
    run, trained = context.engine.drafter, context.drafter.attention
    if (
        run is None
        or context.method == "peagle"
        or [item.window for item in trained] != [item.window for item in run.attention]
    ):
        return None
    causal = {item.causal for item in trained}
    if len(causal) > 1:
        return (
            "Serve the trainer's own layout, or let `spectool convert` carry it as DSpark: Speculators `dflash` has "
            "one causal flag for all layers."
        )
    said, as_run = str(causal == {True}).lower(), str(causal != {True}).lower()
    answer = f"If the drafter really was trained the other way, say it with --set causal={as_run}."
    if "speculators_model_type" not in context.view.config:
        return f"Write `is_causal: {said}`. {answer}"
    flag = f"`sliding_window_non_causal: {as_run}` and " if context.method == "dflash" else ""
    return f"Write {flag}`transformer_layer_config.is_causal: {said}`. {answer}"


@rule(
    "ATT002",
    "attention-unreadable",
    summary="layer_types, sliding_window or the causal flags cannot be read.",
    why="Readers disagree on what a broken list means.",
    fix="Write one of full_attention and sliding_attention per layer, and sliding_window as a number.",
    references=(_DFLASH,),
)
def attention_unreadable(context: Context) -> Iterator[Hit]:
    """Fires for gaps and for what vLLM trips over."""
    gaps = context.gaps("attention")
    for gap in gaps:
        yield Hit(gap.detail)
    if not gaps and not list(disagreeing(context, "num_layers")):
        yield from engine_refuses(context, "ATT002")


@rule(
    "ATT003",
    "layers-in-several-caches",
    scope="engine",
    methods=("peagle",),
    summary="A P-EAGLE drafter has sliding and full layers, or windows of several sizes.",
    why=(
        "vLLM puts layers of different windows into different KV cache groups, and its P-EAGLE proposer asserts that "
        "all draft layers are in one: the engine stops after the weights are loaded."
    ),
    fix="Add --disable-hybrid-kv-cache-manager to the launch: all layers then share a group, and the cache grows.",
    references=(
        "vLLM 0.33 v1/spec_decode/llm_base_proposer.py validate_same_kv_cache_group",
        "vLLM 0.32 run: stops with [sliding, full], and drafts with --disable-hybrid-kv-cache-manager",
    ),
)
def several_windows(context: Context) -> Iterator[Hit]:
    """Looks at what the engine would run; silent where the launch says that all layers share a group."""
    run, launch = context.engine.drafter, context.launch
    windows = list(dict.fromkeys(item.window for item in run.attention)) if run is not None else []
    if len(windows) > 1 and (launch is None or not launch.has("--disable-hybrid-kv-cache-manager")):
        shown = ", ".join("full" if window is None else f"window {window}" for window in windows)
        yield Hit(
            f"the draft layers attend in {len(windows)} ways ({shown}): {context.facts.title} wants one KV cache group"
        )
