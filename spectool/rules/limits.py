"""LEN, DTY: how long, and in which numbers."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.drafter.inventory import inventory
from spectool.formats.lookup import is_number
from spectool.rules.context import Context
from spectool.rules.registry import Abstain, Hit, rule

# Rope types whose tables may be made longer without changing a value (vLLM 0.33 config/speculative.py,
# _CACHE_ONLY_ROPE_TYPES).
_CACHE_ONLY = {"default", "linear", "llama3", "ntk", "proportional"}
_FLOATS = {"BF16", "F16", "F32", "F64"}


@rule(
    "LEN001",
    "drafter-shorter-than-verifier",
    severity="warning",
    scope="engine",
    summary="The verifier serves longer requests than the drafter has positions for.",
    why=(
        "Depending on release, method and rope type vLLM raises the drafter's limit, lowers the server's, stops "
        "drafting, or reads past the drafter's rope table."
    ),
    fix="Serve with --max-model-len at the drafter's max_position_embeddings, or use a release that raises it.",
    references=("github.com/vllm-project/vllm issue 48894", "vLLM 0.33 config/speculative.py"),
)
def shorter(context: Context) -> Iterator[Hit | Abstain]:
    """Compares max_position_embeddings of both, as the release treats them."""
    ours = context.drafter.max_position_embeddings
    theirs = context.verifier.max_position_embeddings if context.verifier else None
    if context.launch is not None and context.launch.own.length is not None:
        theirs = context.launch.own.length  # as it will be served
    if not is_number(ours) or theirs is None:  # vLLM takes 512.0 for 512
        if context.verifier is None:
            yield Abstain("the verifier's max_position_embeddings (--verifier)")
        return
    if ours >= theirs:
        return
    features, rope = context.facts.features, context.drafter.rope
    kind = dict(rope.scaling).get("rope_type", "default") if rope is not None else "default"
    raised = "block_positions_raised" in features and kind in _CACHE_ONLY
    if raised:
        return
    effect = "positions beyond are read past the drafter's rope table"
    if context.method == "peagle" and "eagle_positions_raised" in features:
        # The rope table is raised, the length that is drafted for is not (0.32 run: 7 positions, nothing accepted).
        effect = "longer requests are no longer drafted for"
    if "block_positions_raised" in features:
        lowered = f"the served length is lowered to {ours}"
        effect = "longer requests are no longer drafted for" if context.method == "peagle" else lowered
    whose = "the verifier"
    if context.launch is not None and context.launch.own.length is not None:
        whose = "the launch"
    yield Hit(f"the drafter has {ours} positions, {whose} {theirs}: in {context.facts.title} {effect}")


@rule(
    "LEN002",
    "longer-than-the-verifier",
    scope="launch",
    summary="The launch serves longer requests than the verifier was made for.",
    why="vLLM refuses a max_model_len beyond the verifier's, unless its rope is stretched.",
    fix="Lower --max-model-len, or stretch the verifier's rope with --hf-overrides.",
    references=("vLLM 0.33 config/model.py get_and_verify_max_len",),
)
def longer(context: Context) -> Iterator[Hit | Abstain]:
    """Compares --max-model-len with the verifier's positions."""
    launch = context.launched
    if launch.own.length is None or launch.has("--hf-overrides", "--rope-scaling"):
        return
    theirs = context.verifier.max_position_embeddings if context.verifier else None
    if theirs is None:
        yield Abstain("the verifier's max_position_embeddings (--verifier FOLDER)")
    allowed = launch.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0").strip().lower() in ("1", "true")  # envs.py
    if theirs is not None and launch.own.length > theirs and not allowed:
        yield Hit(f"--max-model-len {launch.own.length}, and the verifier has {theirs} positions")


@rule(
    "DTY002",
    "half-precision-launch",
    scope="launch",
    severity="warning",
    summary="The launch runs both models in float16.",
    why="The drafter inherits the verifier's dtype and was trained in bfloat16: activations overflow; in one report no "
    "draft of 1100 was accepted.",
    fix="Serve with --dtype bfloat16.",
    references=("github.com/vllm-project/vllm issue 55250", "vLLM 0.33 config/speculative.py"),
)
def half_launch(context: Context) -> Iterator[Hit]:
    """Looks at --dtype."""
    given = context.launched.value("--dtype")
    if given in ("float16", "half"):
        yield Hit(f"--dtype {given}")


@rule(
    "DTY001",
    "half-precision-drafter",
    severity="warning",
    summary="The drafter's weights are float16.",
    why="Drafters are trained in bfloat16; in float16 activations overflow: acceptance 0.06 of 15 in one report.",
    fix="Use the publisher's bfloat16 weights, and serve with --dtype bfloat16.",
    references=("github.com/InternLM/lmdeploy issue 4991",),
)
def half_precision(context: Context) -> Iterator[Hit]:
    """Counts dtypes of matrices."""
    halves = [name for name, item in context.view.tensors.items() if item.dtype == "F16"]
    if halves:
        yield Hit(f"{len(halves)} of {len(context.view.tensors)} tensors are float16")


@rule(
    "DTY003",
    "trained-values-no-floats",
    summary="A tensor that was trained holds whole numbers, or numbers of 8 bits without a scale.",
    why="vLLM copies the values into its own dtype without a word: the drafter runs with other numbers.",
    fix="Use the publisher's weights; a quantised drafter has scales beside its weights and settings in config.json.",
    references=("vLLM 0.32 run: mask_hidden as int8 drafts, and accepts 9 instead of 14",),
)
def no_floats(context: Context) -> Iterator[Hit]:
    """Looks at what has no scale; weights of modules may be quantised (rules QNT001 to QNT004)."""
    placed = context.reading.placements.placed
    wrong = [
        f"{placed[name].source} is {dtype}"
        for name in inventory(context.drafter)
        if name in placed
        and not name.endswith(".weight")
        and name not in {"d2t", "t2d"}
        and (dtype := context.view.tensors[placed[name].source].dtype) not in _FLOATS
    ]
    if wrong:
        yield Hit(", ".join(wrong[:5]))
