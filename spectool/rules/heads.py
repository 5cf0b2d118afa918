"""HED, EMB: Markov head, confidence head, and scales around embedding and logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spectool.dialects.heads import UNSTATED
from spectool.drafter.model import ZERO
from spectool.rules.context import Context
from spectool.rules.helpers import differs, engine_refuses
from spectool.rules.registry import Hit, rule

_DSPARK = "vLLM 0.33 model_executor/models/qwen3_dspark.py"
_TYPED = ("markov_head.gate_proj.", "markov_head.joint_proj.")


@rule(
    "HED001",
    "markov-head-type",
    methods=("dspark",),
    summary="The Markov head is not the vanilla one.",
    why=(
        "vLLM never reads markov_head_type and builds the vanilla head: it refuses the extra tensors, or "
        "runs wrong maths."
    ),
    fix="Serve this head with an engine that implements it (SGLang, TensorRT-LLM).",
    references=(_DSPARK,),
)
def head_type(context: Context) -> Iterator[Hit]:
    """Looks at the type's name and at the tensors a gated or rnn head has."""
    markov = context.drafter.markov
    extra = sorted(name for name in context.view.tensors if any(part in name for part in _TYPED))
    if markov is not None and markov.kind not in {"vanilla", ZERO, UNSTATED}:
        yield Hit(f"markov_head_type is {markov.kind}", trained=str(markov), run="vanilla")
    elif extra and markov is not None and markov.kind == "vanilla":
        yield Hit(f"{extra[0]} belongs to a gated or rnn Markov head, but the config says vanilla")


@rule(
    "HED002",
    "markov-head-missing",
    methods=("dspark",),
    summary="The Markov head's rank or type is missing, or its rank is not the tensors'.",
    why="Without a rank vLLM cannot build the head, with another one its weights do not fit.",
    fix="Write markov_rank and markov_head_type as trained.",
    references=(_DSPARK,),
)
def head_missing(context: Context) -> Iterator[Hit]:
    """Compares the rank with markov_w1's columns."""
    gaps = context.gaps("markov_rank", "markov_type")
    for gap in gaps:
        yield Hit(gap.detail)
    shape, markov = context.shapes.get("markov_head.markov_w1.weight", ()), context.drafter.markov
    if markov is not None and markov.rank < 1:
        yield Hit(f"markov_rank is {markov.rank}")
    elif markov is not None and len(shape) == 2 and shape[1] != markov.rank:
        yield Hit(f"markov_rank is {markov.rank}, markov_w1 has {shape[1]} columns")
    elif not gaps:
        fix = "Write markov_rank and markov_head_type at the top of config.json; `spectool convert` does."
        for hit in engine_refuses(context, "HED002"):
            yield replace(hit, fix=fix if markov is not None and markov.rank > 0 else None)


@rule(
    "HED006",
    "markov-head-of-rank-0",
    scope="engine",
    severity="warning",
    methods=("dspark",),
    summary="The drafter has no Markov head, and vLLM builds one of rank 0.",
    why=(
        "vLLM's DSpark class has no way without the head. Whether a product over no columns gives the zeros it should "
        "depends on the kernel: on a CPU with AVX-512 vLLM 0.32 fails at the first draft, on one without it drafts as "
        "trained; no GPU was seen."
    ),
    fix="Convert the folder with `spectool convert`: it adds a Markov head of zeros, which changes no logit.",
    references=(_DSPARK, "vLLM 0.32 run: 'cannot reshape tensor of 0 elements', and on another CPU 8 drafts"),
)
def head_of_rank_0(context: Context) -> Iterator[Hit]:
    """Fires where neither the trainer nor the engine has a head."""
    run = context.engine.drafter
    if run is not None and run.markov is None and context.drafter.markov is None:
        yield Hit(f"markov_rank is 0: {context.facts.title} builds a Markov head without columns")


@rule(
    "HED003",
    "confidence-head-differs",
    scope="engine",
    severity="warning",
    methods=("dspark",),
    summary="vLLM would drop the confidence head, or build one that is not there.",
    why=(
        "The flags default to false in vLLM and to true in Speculators. Drafting works without the head; "
        "adaptive verification loses it."
    ),
    fix="Write enable_confidence_head and confidence_head_with_markov explicitly.",
    references=(_DSPARK,),
)
def confidence_differs(context: Context) -> Iterator[Hit]:
    """Fires on any difference, and on flags that cannot be read."""
    for gap in context.gaps("confidence", "confidence_with_markov"):
        yield Hit(gap.detail)
    gone = context.drafter.confidence is not None and "confidence_head.proj.weight" not in context.shapes
    if not gone and not _of_another_width(context):  # a head that is gone is rule TEN001's business
        yield from differs(context, "confidence", "the confidence head is not built as trained")


@rule(
    "HED005",
    "confidence-head-input",
    scope="engine",
    methods=("dspark",),
    summary="vLLM would feed the confidence head another input than it was trained with.",
    why="With the Markov embedding its weight is wider: vLLM builds the other width, and stops while loading.",
    fix="Write confidence_head_with_markov explicitly, as trained.",
    references=(_DSPARK,),
)
def confidence_input_differs(context: Context) -> Iterator[Hit]:
    """Fires where both sides have the head with other inputs, and where its weight is as wide as the other one."""
    if _of_another_width(context):
        yield from differs(context, "confidence", "the confidence head does not get its input as trained")
    elif wide_confidence(context):
        hidden, markov = context.drafter.dimensions.hidden_size, context.drafter.markov
        yield Hit(
            "confidence_head_with_markov is not true, and confidence_head.proj.weight reads "
            f"{hidden + (markov.rank if markov else 0)} values: the hidden state and the Markov embedding",
            "Write `confidence_head_with_markov: true`.",
        )


def wide_confidence(context: Context) -> bool:
    """Whether the head's weight has the Markov embedding among its inputs, and the file says that it has not."""
    confidence, markov = context.drafter.confidence, context.drafter.markov
    shape = context.shapes.get("confidence_head.proj.weight", ())
    if confidence is None or confidence.with_markov or markov is None:
        return False
    return shape == (1, context.drafter.dimensions.hidden_size + markov.rank)


def _of_another_width(context: Context) -> bool:
    run = context.engine.drafter
    trained = context.drafter.confidence
    return run is not None and None not in (run.confidence, trained) and run.confidence != trained


@rule(
    "HED004",
    "markov-head-differs",
    scope="engine",
    methods=("dspark",),
    summary="vLLM would build a Markov head of another rank.",
    why="Its weights would not fit.",
    fix="Write markov_rank as trained.",
    references=(_DSPARK,),
)
def markov_differs(context: Context) -> Iterator[Hit]:
    """Fires on a rank that differs; the type is HED001's business."""
    markov = context.drafter.markov
    if markov is None or markov.kind in {"vanilla", ZERO}:
        yield from differs(context, "markov", "the Markov head is not built as trained")


@rule(
    "EMB001",
    "scale-lost",
    scope="engine",
    summary="The drafter was trained with a scale on embedding, logits or values that vLLM does not apply.",
    why=(
        "Gemma's verifiers scale their embedding inside the model; vLLM shares the raw row with the "
        "drafter, and acceptance collapses."
    ),
    fix="Convert the folder with `spectool convert --verifier FOLDER`: the output holds the scale.",
    references=("github.com/vllm-project/vllm pull 41703", "vLLM 0.33 model_executor/models/qwen3_dflash.py"),
)
def scale_lost(context: Context) -> Iterator[Hit]:
    """Fires on any of the three scales."""
    run = context.engine.drafter
    for field in ("embedding_scale", "logit_scale", "value_scale"):
        applied = getattr(run, field, 1.0)
        # Where vLLM applies one that the trainer's layout knows nothing of, the file may be a converter's.
        fix = None
        if getattr(context.drafter, field) == 1.0 != applied:
            fix = f"If the drafter was trained so, say it with --set {field}={applied:g}; else remove the key."
        yield from differs(context, field, f"the {field.replace('_', ' ')} is not applied as trained", fix)
