"""ADV: adaptive verification, dynamic K, and other options that change how drafts are made or checked."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.formats.lookup import is_int
from spectool.rules.context import Context
from spectool.rules.helpers import release_of
from spectool.rules.registry import Hit, rule
from spectool.rules.runner import first_runner
from spectool.speed.adaptive import KEY, refused, stopped

_CONFIG = "vLLM 0.33 config/vllm.py"
_ARGMAX_CHECKED = (0, 25)  # the first release whose model runner V2 has the reduction


@rule(
    "ADV001",
    "adaptive-verification",
    scope="launch",
    summary="Adaptive verification beside something it excludes.",
    why="It trims batches on the GPU by the drafter's confidence, which adapters, pipeline stages and missing full "
    "graphs do not allow. What else is refused differs by release: until 0.29 every method but DSpark, and drafters "
    "without confidence head.",
    fix="Drop enable_adaptive_verification, or what the message names.",
    references=(
        f"{_CONFIG} _validate_adaptive_verification",
        "vLLM 0.33 v1/worker/gpu/spec_decode/speculator.py",
        "vLLM 0.29 v1/worker/gpu/spec_decode/dspark/speculator.py",
    ),
)
def adaptive(context: Context) -> Iterator[Hit]:
    """Looks at flags, the confidence head, and with GPUs named at what the verifier's attention can do there."""
    launch = context.launched
    if launch.speculative.get(KEY) is not True or KEY not in context.facts.speculative_config_keys:
        return
    runs = context.engine.drafter or context.drafter
    excluded = refused(context.facts, context.method, launch, confidence=runs.confidence is not None)
    if excluded:
        yield Hit(f"{KEY} with {', '.join(excluded)}")
    if launch.gpus is not None and launch.model is not None:
        why = stopped(context.facts, launch.model, launch.gpus.gpu.compute_capability, launch)
        if why is not None:
            yield Hit(f"{KEY}: {why}")


@rule(
    "ADV002",
    "argmax-reduction",
    scope="launch",
    summary="use_local_argmax_reduction with probabilistic drafts.",
    why="The reduction never makes the whole logits that sampling needs: from 0.25 on model runner V2 stops at load. "
    "V1, which runs P-EAGLE, reduces for greedy requests only.",
    fix="Drop one of the two.",
    references=(
        "vLLM 0.25 to 0.33 v1/worker/gpu/spec_decode/speculator.py _validate_local_argmax_reduction",
        "vLLM 0.32 v1/spec_decode/llm_base_proposer.py _sample_draft_tokens; run: P-EAGLE drafts with both",
    ),
)
def argmax(context: Context) -> Iterator[Hit]:
    """Fires on the two together, where V2 runs the drafter."""
    keys = context.launched.speculative
    if first_runner(context) is not None or release_of(context.facts.version) < _ARGMAX_CHECKED:
        return
    if keys.get("use_local_argmax_reduction") is True and keys.get("draft_sample_method") == "probabilistic":
        yield Hit("use_local_argmax_reduction is true, and draft_sample_method is probabilistic")


@rule(
    "ADV003",
    "unpadded-drafter-batch",
    scope="launch",
    summary="disable_padded_drafter_batch with a parallel drafter.",
    why="Model runner V1 raises NotImplementedError: parallel drafting needs the padded batch. Beside "
    "--async-scheduling by name no runner takes it.",
    fix="Leave disable_padded_drafter_batch out.",
    references=("vLLM 0.33 v1/spec_decode/llm_base_proposer.py _raise_if_padded_drafter_batch_disabled",),
)
def unpadded(context: Context) -> Iterator[Hit]:
    """Fires where V1 runs the drafter, or asynchronous scheduling is asked for by name."""
    launch = context.launched
    if launch.speculative.get("disable_padded_drafter_batch") is not True:
        return
    if first_runner(context) is not None:
        yield Hit("disable_padded_drafter_batch is true, and the drafter runs on model runner V1")
    if launch.has("--async-scheduling"):
        yield Hit("disable_padded_drafter_batch is true, beside --async-scheduling")


@rule(
    "ADV004",
    "dynamic-tokens",
    scope="launch",
    summary="The schedule of K by batch size cannot be read, or is not used.",
    why="It is a list of [first, last, K]: the first range starts at 1, none overlaps another, and a hole keeps the K "
    "before it. vLLM's scheduler raises on another one; with data parallelism vLLM drops it with a warning.",
    fix="Correct num_speculative_tokens_per_batch_size, or leave it out.",
    references=(
        "vLLM 0.33 v1/spec_decode/dynamic/utils.py validate_and_normalize_dynamic_sd_schedule",
        f"{_CONFIG} _maybe_disable_dynamic_sd_for_data_parallel",
    ),
)
def dynamic(context: Context) -> Iterator[Hit]:
    """Walks the ranges in their order."""
    name = "num_speculative_tokens_per_batch_size"
    table, copies = context.launched.speculative.get(name), context.launched.own.data_parallel or 1
    if table is None:
        return
    if not isinstance(table, list) or not all(
        isinstance(row, list) and len(row) == 3 and all(is_int(item) for item in row) for row in table
    ):
        yield Hit(f"{name} is no list of [first, last, K]")
    elif copies > 1:
        yield Hit(f"{name} with --data-parallel-size {copies} is not used")
    elif table and (fault := _schedule_fault(sorted(table, key=lambda row: row[0]))):  # empty: as if it were not there
        yield Hit(f"{name}: {fault}")


def _schedule_fault(rows: list[list[int]]) -> str | None:
    before = 0
    for first, last, tokens in rows:
        if last < first:
            return f"the range {first} to {last} ends before it begins"
        if before == 0 and first != 1:
            return f"the first range starts at {first}, not at 1"
        if first <= before:
            return f"the range {first} to {last} overlaps the one that ends at {before}"
        if tokens < 0:
            return f"the range {first} to {last} has K = {tokens}"
        before = last
    return None


@rule(
    "ADV005",
    "draft-quantised-online",
    scope="launch",
    severity="warning",
    summary="The launch quantises the drafter while it loads.",
    why="Until 0.28 vLLM fails at start (hf_overrides must be a dict); on Ampere a zero-sized Marlin kernel was "
    "reported.",
    fix="Leave quantization out of the speculative configuration, or use a drafter that is quantised on disk.",
    references=(
        "github.com/vllm-project/vllm issue 53873",
        "vLLM 0.29 model_executor/model_loader/weight_utils.py get_quant_config: a callable hf_overrides is none",
    ),
)
def online(context: Context) -> Iterator[Hit]:
    """Fires for plain weights with a quantization key."""
    from spectool.tensors.quantised import quantised  # noqa: PLC0415 - only with the key

    given = context.launched.speculative.get("quantization")
    if given is not None and quantised(context.view) is None:
        yield Hit(f"quantization {given!r} for a drafter whose weights are plain")
