"""LAY, ATT, ROP, NRM, BIA: the decoder layers."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.rules.context import Context
from spectool.rules.helpers import differs, engine_refuses
from spectool.rules.registry import Hit, rule

_DFLASH = "vLLM 0.33 model_executor/models/qwen3_dflash.py"
_EAGLE = "vLLM 0.33 model_executor/models/{llama_eagle3,qwen3_eagle3}.py"


def _declared(context: Context, *names: str) -> Iterator[tuple[str, int, int]]:
    for name in names:
        declared = context.reading.declared.get(name)
        measured = getattr(context.drafter.dimensions, name)
        if declared is not None and measured and declared != measured:
            yield name, declared, measured


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
    for _, declared, measured in _declared(context, "num_layers"):
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
    for name, declared, measured in _declared(context, "head_dim", "num_heads", "num_kv_heads"):
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
    for name, declared, measured in _declared(context, "hidden_size", "intermediate_size", "vocab_size"):
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
    if not list(_declared(context, *context.reading.declared)):
        yield from differs(context, "dimensions", "the sizes are not read as the tensors have them")


@rule(
    "ATT001",
    "attention-differs",
    scope="engine",
    summary="vLLM would attend in another way than the drafter was trained: causality or window.",
    why=(
        "Since vLLM 0.26 `sliding_window_non_causal: false` makes full-attention layers of a Speculators DFlash causal "
        "too; measured on z-lab's Qwen3-8B drafter it costs 10 to 15 % of the acceptance length, without an error."
    ),
    fix=(
        "For full-attention layers write `sliding_window_non_causal: true` and `transformer_layer_config.is_causal: "
        "false`. If the drafter really was trained so, say it with --set causal=true."
    ),
    references=("github.com/vllm-project/vllm issues 43445, 56692", _DFLASH),
)
def attention_differs(context: Context) -> Iterator[Hit]:
    """Fires on any difference per layer, unless the number of layers is the fault."""
    if not list(_declared(context, "num_layers")):
        yield from differs(context, "attention", "attention is not run as it was trained")


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
    if not gaps and not list(_declared(context, "num_layers")):
        yield from engine_refuses(context, "ATT002")


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
    fix=(
        "Remove the inherited keys (`spectool convert` does). If the drafter really was trained so: --set"
        " rope.partial=F."
    ),
    references=("github.com/vllm-project/speculators issues 613, 738", "github.com/deepseek-ai/DeepSpec issues 71, 72"),
)
def rope_differs(context: Context) -> Iterator[Hit]:
    """Fires on any difference, unless a wrong head size is the fault, or rule CFG005 asks which rope was trained."""
    if any(question.key.startswith("rope.") for question in context.reading.questions):
        return
    if context.drafter.rope is not None and not list(_declared(context, "head_dim", "num_heads")):
        yield from differs(context, "rope", "rope is not run as it was trained")


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
