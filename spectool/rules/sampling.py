"""ADV: adaptive verification, dynamic K, and other options that change how drafts are made or checked."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.formats.lookup import is_int
from spectool.rules.context import Context
from spectool.rules.registry import Hit, rule
from spectool.rules.runner import first_runner

_CONFIG = "vLLM 0.33 config/vllm.py"


@rule(
    "ADV001",
    "adaptive-verification",
    scope="launch",
    summary="Adaptive verification beside something it excludes.",
    why="It trims batches on the GPU by the drafter's confidence, which adapters, pipeline stages and missing full "
    "graphs do not allow.",
    fix="Drop enable_adaptive_verification, or what the message names.",
    references=(f"{_CONFIG} _validate_adaptive_verification", "vLLM 0.33 v1/worker/gpu/spec_decode/speculator.py"),
)
def adaptive(context: Context) -> Iterator[Hit]:
    """Looks at the flags it excludes, and at the confidence head it is made from."""
    launch = context.launched
    if launch.speculative.get("enable_adaptive_verification") is not True:
        return
    mode = str(launch.document("--compilation-config", "-cc", "-O").get("cudagraph_mode", "FULL_AND_PIECEWISE"))
    excluded = [name for name in ("--enable-lora", "--enable-return-routed-experts") if launch.has(name)]
    excluded += ["pipeline stages"] if launch.stages > 1 else []
    if launch.has("--enforce-eager") or "FULL" not in mode.upper():
        excluded.append("a launch without full CUDA graphs")
    argmax = launch.speculative.get("use_local_argmax_reduction") is True
    if argmax and (context.method != "dspark" or context.drafter.confidence is None):
        excluded.append("use_local_argmax_reduction")
    if excluded:
        yield Hit(f"enable_adaptive_verification with {', '.join(excluded)}")


@rule(
    "ADV002",
    "argmax-reduction",
    scope="launch",
    summary="use_local_argmax_reduction with probabilistic drafts.",
    why="The reduction never makes the whole logits that sampling needs.",
    fix="Drop one of the two.",
    references=("vLLM 0.33 v1/worker/gpu/spec_decode/speculator.py",),
)
def argmax(context: Context) -> Iterator[Hit]:
    """Fires on the two together."""
    keys = context.launched.speculative
    if keys.get("use_local_argmax_reduction") is True and keys.get("draft_sample_method") == "probabilistic":
        yield Hit("use_local_argmax_reduction is true, and draft_sample_method is probabilistic")


@rule(
    "ADV003",
    "unpadded-drafter-batch",
    scope="launch",
    summary="disable_padded_drafter_batch with a parallel drafter.",
    why="Model runner V1 raises NotImplementedError: parallel drafting needs the padded batch.",
    fix="Leave disable_padded_drafter_batch out.",
    references=("vLLM 0.33 v1/spec_decode/llm_base_proposer.py _raise_if_padded_drafter_batch_disabled",),
)
def unpadded(context: Context) -> Iterator[Hit]:
    """Fires where V1 runs the drafter."""
    if context.launched.speculative.get("disable_padded_drafter_batch") is True and first_runner(context) is not None:
        yield Hit("disable_padded_drafter_batch is true, and the drafter runs on model runner V1")


@rule(
    "ADV004",
    "dynamic-tokens",
    scope="launch",
    summary="The schedule of K by batch size cannot be read, or is not used.",
    why="It is a list of [first, last, K] that starts at 1 and leaves no hole; with data parallelism vLLM drops it "
    "with a warning.",
    fix="Correct num_speculative_tokens_per_batch_size, or leave it out.",
    references=(f"{_CONFIG}, num_speculative_tokens_per_batch_size",),
)
def dynamic(context: Context) -> Iterator[Hit]:
    """Walks the ranges."""
    name = "num_speculative_tokens_per_batch_size"
    table = context.launched.speculative.get(name)
    if table is None:
        return
    if not isinstance(table, list) or not all(
        isinstance(row, list) and len(row) == 3 and all(is_int(item) for item in row) for row in table
    ):
        yield Hit(f"{name} is no list of [first, last, K]")
        return
    expected = 1
    for first, last, _ in table:
        if first != expected or last < first:
            yield Hit(f"{name}: the range {first} to {last} should begin at {expected} and not end before it begins")
            return
        expected = last + 1
    if (context.launched.own.data_parallel or 1) > 1:
        yield Hit(f"{name} with --data-parallel-size {context.launched.own.data_parallel} is not used")


@rule(
    "ADV005",
    "draft-quantised-online",
    scope="launch",
    severity="warning",
    summary="The launch quantises the drafter while it loads.",
    why="Reported to fail at start (hf_overrides must be a dict) and on Ampere with a zero-sized Marlin kernel.",
    fix="Leave quantization out of the speculative configuration, or use a drafter that is quantised on disk.",
    references=("github.com/vllm-project/vllm issue 53873",),
)
def online(context: Context) -> Iterator[Hit]:
    """Fires for plain weights with a quantization key."""
    from spectool.tensors.quantised import quantised  # noqa: PLC0415 - only with the key

    given = context.launched.speculative.get("quantization")
    if given is not None and quantised(context.view) is None:
        yield Hit(f"quantization {given!r} for a drafter whose weights are plain")
