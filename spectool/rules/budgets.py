"""BUD, CAC: does the launch leave room to draft: tokens per step, memory, caches, graphs? The planner is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spectool.formats.lookup import is_int
from spectool.planning.lax import as_whole
from spectool.planning.parsing_values import whole
from spectool.rules.context import Context
from spectool.rules.registry import Abstain, Hit, rule
from spectool.rules.runner import first_runner
from spectool.rules.speculation import served_tokens
from spectool.speed.adaptive import graphs

if TYPE_CHECKING:
    from spectool.planning.budget import Budget, Release

_VLLM = "vLLM 0.33 config/vllm.py _set_max_num_scheduled_tokens"
_SCHEDULER = "vLLM 0.33 config/scheduler.py verify_max_model_len"
_STEPS = "vLLM 0.32 v1/core/sched/scheduler.py schedule"


def _largest(most: int) -> int:
    """Return the largest graph of vLLM's own list up to a size: 1, 2, 4, then every 8 tokens, from 256 on every 16."""
    return max(size for size in (1, 2, 4, most // 8 * 8 if most < 256 else most // 16 * 16) if size <= most)


def _served_length(context: Context) -> int | None:
    """Return the longest request served: as the launch says, else as the verifier was made for."""
    theirs = context.verifier.max_position_embeddings if context.verifier else None
    return context.launched.own.length or theirs


def _budget(context: Context, sequences: int | None = None) -> tuple[Budget, Release] | str:
    """Return the launch's budgets and the planner's facts, or what is missing as text.

    Args:
        context: of the launch.
        sequences: how many requests to reckon with where the launch does not say it.

    """
    from spectool.planning.budget import plan_budget, planned_releases, release  # noqa: PLC0415 - only with a launch
    from spectool.planning.gpus import catalogue  # noqa: PLC0415 - only with a launch

    launch, k = context.launched, served_tokens(context)
    if context.facts.version not in planned_releases():
        return f"the budget rules of {context.facts.title}: spectool has those of {', '.join(planned_releases())}"
    if k is None:
        return "K (num_speculative_tokens)"
    wanted = launch.own.sequences or sequences
    if launch.gpus is None and (wanted is None or launch.own.batched_tokens is None):
        return "vLLM's default budgets, which depend on the GPU (--gpus NAME:COUNT)"
    facts = release(context.facts.version)
    gpu = launch.gpus.gpu if launch.gpus is not None else catalogue()[0]  # both figures are the user's: it decides none
    tokens, usual = facts.batch_defaults(gpu)
    budget = plan_budget(
        facts,
        gpu,
        context.method,
        k,
        context.drafter.slots,
        sequences=wanted or usual,
        batched_tokens=launch.own.batched_tokens or tokens,
    )
    return budget, facts


@rule(
    "BUD001",
    "budget-too-small",
    scope="launch",
    summary="max_num_batched_tokens is too small for what the launch wants to do in one step.",
    why="vLLM refuses it at start, or starts and verifies no draft.",
    fix="Raise --max-num-batched-tokens, or lower --max-num-seqs or K.",
    references=(
        _VLLM,
        _SCHEDULER,
        "vLLM 0.32 v1/core/sched/scheduler.py schedule",
        "spectool/data/planning/engine.json",
    ),
)
def too_small(context: Context) -> Iterator[Hit | Abstain]:
    """Asks the planner; adds what adapters, unchunked prefill and multimodal input want."""
    from spectool.planning.budget import budget_faults  # noqa: PLC0415 - only with a launch

    launch = context.launched
    found = _budget(context)
    if isinstance(found, str):
        alone = _budget(context, sequences=1)
        if isinstance(alone, str) or not (one := budget_faults(*alone, context.method)):
            yield Abstain(found)
        else:  # too small for one request is too small for any number
            for fault in one:
                yield Hit(fault)
    else:
        budget, facts = found
        for fault in budget_faults(budget, facts, context.method):
            yield Hit(fault, f"--max-num-batched-tokens {budget.wanted} has room for all.")
        least = budget.sequences * ((served_tokens(context) or 0) + 1)
        if launch.has("--enable-lora") and budget.batched_tokens < least:
            yield Hit(f"max_num_batched_tokens {budget.batched_tokens} with --enable-lora: vLLM wants {least}")
    tokens, length = launch.own.batched_tokens, _served_length(context)
    if tokens is not None and length is not None and tokens < length and launch.has("--no-enable-chunked-prefill"):
        yield Hit(f"max_num_batched_tokens {tokens} is below max_model_len {length} without chunked prefill")
    floor = launch.model.batch_floor if launch.model is not None and not launch.own.language_only else 0
    if tokens is not None and tokens < floor:
        yield Hit(f"max_num_batched_tokens {tokens}: {launch.model.name if launch.model else ''} wants {floor}")


@rule(
    "BUD002",
    "budget-caps-requests",
    scope="launch",
    severity="warning",
    summary="The token budget lets fewer requests draft together than the launch allows.",
    why="vLLM lowers the number of running requests without an error, or requests wait for a step.",
    fix="Raise --max-num-batched-tokens to the figure in the message, or lower --max-num-seqs.",
    references=(_VLLM, "spectool/data/planning/engine.json"),
)
def capped(context: Context) -> Iterator[Hit | Abstain]:
    """Asks the planner for what a budget costs."""
    from spectool.planning.budget import budget_faults, budget_notes  # noqa: PLC0415 - only with a launch

    found = _budget(context)
    if isinstance(found, str):
        return  # rule BUD001 says what is missing
    budget, facts = found
    if not budget_faults(budget, facts, context.method):
        for note in budget_notes(budget, facts, context.method):
            yield Hit(note, f"--max-num-batched-tokens {budget.wanted} has room for all.")


@rule(
    "BUD003",
    "small-steps",
    scope="launch",
    severity="note",
    summary="The launch's steps are smaller than vLLM advises with a drafter.",
    why="Below 8192 scheduled tokens a step vLLM warns of suboptimal throughput.",
    fix="Raise --max-num-batched-tokens if memory allows.",
    references=(_VLLM,),
)
def small_steps(context: Context) -> Iterator[Hit]:
    """Looks at the user's own figure only: the default is vLLM's business."""
    tokens = context.launched.own.batched_tokens
    if tokens is not None and tokens < 8192:
        yield Hit(f"max_num_batched_tokens is {tokens}, vLLM advises 8192 with a drafter")


@rule(
    "BUD004",
    "does-not-fit",
    scope="launch",
    summary="Both models, their caches and the overhead do not fit on the GPUs.",
    why="vLLM fails after it loaded the weights, with the longest length it could serve.",
    fix="See the hint: a shorter --max-model-len, more GPUs.",
    references=("docs/planning.md", "spectool/data/planning/overhead.json"),
)
def fits(context: Context) -> Iterator[Hit | Abstain]:
    """Takes the planner's verdict, where GPUs are named."""
    plan = context.launched_plan
    if plan is None:
        return
    verdict = plan()
    if verdict.unknown:
        yield Abstain(verdict.unknown)
    elif verdict.refused and "does not fit" in verdict.refused:
        yield Hit(verdict.refused, verdict.hint)


@rule(
    "BUD005",
    "graph-sizes",
    scope="launch",
    summary="The CUDA graph sizes of the launch leave none for drafting, or contradict each other.",
    why="Model runner V1 rounds the sizes up to multiples of K+1 and raises where none stays within the largest one, "
    "which must be max_cudagraph_capture_size.",
    fix="Add a size of K+1 or more, or leave the sizes out.",
    references=(
        "vLLM 0.33 config/compilation.py adjust_cudagraph_sizes_for_spec_decode",
        "vLLM 0.33 config/vllm.py _set_cudagraph_sizes",
    ),
)
def graph_sizes(context: Context) -> Iterator[Hit]:
    """Reads the sizes from --compilation-config, and from the flags that set them too."""
    launch = context.launched
    compilation = launch.document("--compilation-config")
    sizes, most = compilation.get("cudagraph_capture_sizes"), as_whole(compilation.get("max_cudagraph_capture_size"))
    flagged = [number for text in launch.values("--cudagraph-capture-sizes") if (number := whole(text)) is not None]
    limit = whole(launch.value("--max-cudagraph-capture-size") or "")
    for name, key, flag in (("cudagraph_capture_sizes", sizes, flagged), ("max_cudagraph_capture_size", most, limit)):
        if key is not None and flag:
            yield Hit(f"{name} is set by --compilation-config and by a flag of its own", "Keep one of the two.")
    sizes, most = flagged or sizes, most if limit is None else limit
    mode = graphs(launch)
    if mode == "NONE":
        return  # no graphs: vLLM looks at no size
    if most is not None and is_int(most) and most < 1:
        yield Hit(f"max_cudagraph_capture_size is {most}")
        return
    if sizes == []:
        yield Hit("cudagraph_capture_sizes is empty")
        return
    if isinstance(sizes, list) and not all(is_int(as_whole(size)) for size in sizes):
        return  # rule FLG002
    largest = max(map(as_whole, sizes)) if isinstance(sizes, list) else _largest(most) if is_int(most) else None
    if not is_int(largest):
        return
    tokens = launch.own.batched_tokens
    if sizes is None and is_int(most) and tokens is not None and tokens <= most:
        largest = max(largest, tokens)  # vLLM adds the whole step's size to its own list
    if isinstance(sizes, list) and is_int(most) and most != largest:
        yield Hit(f"max_cudagraph_capture_size is {most}, the largest of cudagraph_capture_sizes {largest}")
    k, reason = served_tokens(context), first_runner(context)
    # Only graphs of whole decode steps are cut to multiples.
    if reason is not None and "FULL" in mode and k is not None and largest < k + 1:
        yield Hit(f"the largest CUDA graph is of {largest} tokens, below K+1 = {k + 1} (model runner V1: {reason})")


@rule(
    "CAC001",
    "drafter-in-several-caches",
    scope="launch",
    methods=("peagle",),
    summary="vLLM would put the drafter's layers into several KV cache groups.",
    why="P-EAGLE's proposer asserts that all its layers are in one; beside a verifier of mixed attention not all are.",
    fix="Add --disable-hybrid-kv-cache-manager: attention layers then share one group, and the cache grows. With a "
    "verifier that has recurrent layers nothing helps but another drafter.",
    references=(
        "vLLM 0.33 v1/spec_decode/llm_base_proposer.py",
        "vLLM 0.33 v1/core/kv_cache_utils.py unify_hybrid_kv_cache_specs",
    ),
)
def several_caches(context: Context) -> Iterator[Hit | Abstain]:
    """Groups both models' layers as vLLM does; a drafter whose own layers differ is rule ATT003's business."""
    if context.launched.has("--disable-hybrid-kv-cache-manager"):
        return
    if len({item.window for item in context.drafter.attention}) > 1:
        return
    from spectool.planning.kv_groups import UngroupableError, group_layers  # noqa: PLC0415 - only with a launch
    from spectool.planning.kv_layers import BLOCK, CacheSettings, all_layers  # noqa: PLC0415 - only with a launch
    from spectool.planning.models import UnknownError  # noqa: PLC0415 - only with a launch

    launch = context.launched
    if launch.model is None or not context.sized:
        yield Abstain("the verifier's layers (--verifier FOLDER)")
        return
    settings = CacheSettings(
        tensor_parallel=launch.ranks,
        block=launch.own.block or BLOCK,
        dtype=launch.own.kv_dtype or "auto",
        speculative_tokens=served_tokens(context) or 1,
        prefix_caching=launch.own.prefix_caching,
    )
    try:
        layers = all_layers(launch.model, context.drafter, settings)
        groups = group_layers(layers)
    except (UnknownError, UngroupableError) as error:
        yield Abstain(f"how vLLM caches both models: {error}")
        return
    first = len(layers) - len(context.drafter.attention)
    homes = [group for group in groups if any(member >= first for member in group.members)]
    if len(homes) > 1:
        yield Hit(f"the drafter's {len(context.drafter.attention)} layers lie in {len(homes)} KV cache groups")


@rule(
    "BUD006",
    "long-prefill-threshold",
    scope="launch",
    summary="--long-prefill-token-threshold is beyond the served length.",
    why="vLLM refuses it at start.",
    fix="Lower it, or leave it out.",
    references=(_SCHEDULER,),
)
def long_prefill(context: Context) -> Iterator[Hit]:
    """Compares it with the served length."""
    given = whole(context.launched.value("--long-prefill-token-threshold") or "0") or 0
    length = _served_length(context)
    if length is not None and given > length:
        yield Hit(f"--long-prefill-token-threshold {given}, and the served length is {length}")
