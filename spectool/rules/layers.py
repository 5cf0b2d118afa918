"""LAY, NRM, BIA: the decoder layers."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.formats.lookup import is_int, is_number, lookup
from spectool.rules.context import Context
from spectool.rules.helpers import differs, disagreeing
from spectool.rules.registry import Hit, rule

_DFLASH = "vLLM 0.33 model_executor/models/qwen3_dflash.py"
_EAGLE = "vLLM 0.33 model_executor/models/{llama_eagle3,qwen3_eagle3}.py"


@rule(
    "LAY001",
    "layer-count",
    summary="config.json and the tensors disagree on the number of layers.",
    why="vLLM builds what the config says; layers without tensors keep whatever lies in memory, without a word.",
    fix="Correct num_hidden_layers, or use the complete checkpoint.",
    references=(_DFLASH, "github.com/vllm-project/speculators pull 812"),
)
def layer_count(context: Context) -> Iterator[Hit]:
    """Counts distinct layer numbers among the tensors."""
    for _, declared, measured in disagreeing(context, "num_layers"):
        yield Hit(f"num_hidden_layers is {declared}, the tensors have {measured}")


@rule(
    "LAY002",
    "head-size",
    summary="config.json and the tensors disagree on heads or head size.",
    why="Head size decides rotation and attention scale; where it happens to load, it computes something else.",
    fix="Correct num_attention_heads, num_key_value_heads or head_dim.",
    references=(_DFLASH, _EAGLE),
)
def head_size(context: Context) -> Iterator[Hit]:
    """Measures q/k norms and projections."""
    for name, declared, measured in disagreeing(context, "head_dim", "num_heads", "num_kv_heads"):
        keys = {"num_heads": "num_attention_heads", "num_kv_heads": "num_key_value_heads"}
        yield Hit(f"{keys.get(name, name)} is {declared}, the tensors have {measured}")


@rule(
    "LAY003",
    "sizes",
    summary="config.json and the tensors disagree on hidden size, MLP width or vocabulary.",
    why="The weights do not fit the modules the engine builds.",
    fix="Correct the key named in the message.",
    references=(_DFLASH, _EAGLE),
)
def sizes(context: Context) -> Iterator[Hit]:
    """Measures norm, gate_proj and embedding."""
    for name, declared, measured in disagreeing(context, "hidden_size", "intermediate_size", "vocab_size"):
        yield Hit(f"{name} is {declared}, the tensors have {measured}")


@rule(
    "LAY004",
    "dimensions-differ",
    scope="engine",
    summary="vLLM would build modules of other sizes than the drafter has.",
    why="A size is missing from config.json and the engine's default is another.",
    fix="Write every size into config.json; `spectool convert` does.",
    references=(_DFLASH, _EAGLE),
)
def dimensions_differ(context: Context) -> Iterator[Hit]:
    """Fires on a difference that no disagreement of config and tensors explains."""
    if not list(disagreeing(context, *context.reading.declared)):
        yield from differs(context, "dimensions", "the sizes are not read as the tensors have them")


@rule(
    "LAY005",
    "head-size-of-its-own",
    severity="note",
    methods=("peagle",),
    summary="The drafter splits its projections into heads of another size than its verifier.",
    why=(
        "Without q/k norms no tensor shows the head size: 4 heads of 32 and 2 of 64 have one shape. With the wrong "
        "one it loads and drafts, and rotation and scale are others."
    ),
    fix="Ask the publisher how many heads were trained; most drafters have their verifier's head size.",
    references=(_EAGLE, "vLLM 0.32 run: 2 heads of 64 for 4 of 32 accept 9 instead of 14"),
)
def head_size_of_its_own(context: Context) -> Iterator[Hit]:
    """Compares head sizes where the drafter has no q/k norms."""
    verifier, config, ours = context.verifier, context.verifier_config, context.drafter.dimensions.head_dim
    if verifier is None or config is None or context.drafter.qk_norm or not ours:
        return
    nested = lookup(config, verifier.nested_under) if verifier.nested_under else config
    stated, heads = nested.get("head_dim"), nested.get("num_attention_heads")
    theirs = stated if is_int(stated) else verifier.hidden_size // heads if is_int(heads) and heads > 0 else None
    if theirs is not None and theirs != ours:
        yield Hit(f"heads of {ours}, {verifier.name}'s have {theirs}")


@rule(
    "NRM001",
    "norm-flags-differ",
    scope="engine",
    summary="vLLM would place or build norms in another way than the drafter was trained with.",
    why="No tensor shape shows it: the checkpoint loads, or a norm is dropped without a word.",
    fix="Write the flag as trained; for P-EAGLE fc_norm also belongs inside transformer_layer_config.",
    references=(_EAGLE,),
)
def norms_differ(context: Context) -> Iterator[Hit]:
    """Looks at q/k norms, the norms around fc and the residual, epsilon and activation."""
    for field in ("qk_norm", "norm_before_residual", "norm_before_fc", "fc_norm", "rms_norm_eps", "activation"):
        label = field.replace("_", " ")
        yield from differs(context, field, f"{label} is not run as it was trained")
    for gap in context.gaps("norm_before_residual", "norm_before_fc", "fc_norm"):
        yield Hit(gap.detail)


@rule(
    "NRM002",
    "epsilon-differs",
    severity="note",
    summary="The drafter's norms have another epsilon than its verifier's.",
    why="Trainers build a drafter from its verifier's config.json; another value is one nobody chose, or a slip.",
    fix="Ask the publisher which rms_norm_eps was trained.",
    references=("Speculators 0.9.0, DeepSpec and SpecForge: the draft's decoder config is a copy of the verifier's",),
)
def epsilon_differs(context: Context) -> Iterator[Hit]:
    """Compares the two numbers."""
    verifier, config = context.verifier, context.verifier_config
    if verifier is None or config is None:
        return
    place = f"{verifier.nested_under}.rms_norm_eps" if verifier.nested_under else "rms_norm_eps"
    theirs, ours = lookup(config, place), context.drafter.rms_norm_eps
    if is_number(theirs) and theirs != ours:
        yield Hit(f"rms_norm_eps is {ours:g}, {verifier.name}'s is {theirs:g}")


@rule(
    "BIA001",
    "biases-differ",
    scope="engine",
    summary="Bias or sink tensors and the flags that build them disagree.",
    why="vLLM ignores a bias it has no module for, and leaves one without a tensor uninitialised; both in silence.",
    fix="Set attention_bias, mlp_bias or attention_sink_bias to what the tensors say.",
    references=(_DFLASH, _EAGLE),
)
def biases_differ(context: Context) -> Iterator[Hit]:
    """Compares flags with tensors."""
    for field in ("attention_bias", "mlp_bias", "sinks"):
        yield from differs(context, field, f"{field.replace('_', ' ')} is not built as the tensors have it")
