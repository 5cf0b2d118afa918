"""PAR: how a launch divides both models over GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spectool.formats.lookup import is_int, lookup
from spectool.planning.lax import as_whole
from spectool.rules.context import Context
from spectool.rules.helpers import release_of
from spectool.rules.registry import Abstain, Hit, rule
from spectool.rules.runner import first_runner

if TYPE_CHECKING:
    from spectool.planning.models import Model

_SPECULATIVE = "vLLM 0.33 config/speculative.py"
_WHOLE_DRAFT_CACHE = (0, 31)
_EXPERTS_INHERITED = (0, 30)
_BLOCKS_REFINED = (0, 29)
_BLOCK = "quantization_config.weight_block_size"
# Verifiers whose inner class relays aux hidden states to the last stage, and ones seen not to
# (vLLM 0.33, supports_aux_hidden_states_over_pp in model_executor/models and models).
_RELAY = {
    *("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"),
    *("Qwen3VLForConditionalGeneration", "SarvamMLAForCausalLM", "DeepseekV4ForCausalLM", "KimiLinearForCausalLM"),
}
_NO_RELAY = {
    *("Qwen3MoeForCausalLM", "GptOssForCausalLM", "Qwen3NextForCausalLM", "MiMoForCausalLM", "GraniteForCausalLM"),
    *("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
}


@rule(
    "PAR001",
    "tensor-parallel-does-not-divide",
    scope="launch",
    summary="The tensor-parallel size does not divide both models.",
    why=(
        "Draft layers are split over the verifier's ranks, whatever draft_tensor_parallel_size says. Heads and MLP "
        "width must be multiples of it, key-value heads a multiple or a divisor. Else vLLM stops, at the latest with "
        "an assertion at load. Decode context parallelism splits the ranks further, and only where they outnumber the "
        "key-value heads."
    ),
    fix="Use a tensor-parallel size that divides both models.",
    references=(
        "vLLM 0.33 config/model.py verify_with_parallel_config",
        "vLLM 0.33 config/parallel.py _validate_parallel_config: tp_size must be divisible by dcp_size",
        "vLLM 0.33 model_executor/models/qwen3_dflash.py: tp_size from the process group",
    ),
)
def tensor_parallel(context: Context) -> Iterator[Hit | Abstain]:
    """Holds --tensor-parallel-size against the heads and widths of both."""
    from spectool.planning.fit import spread  # noqa: PLC0415 - only with a launch
    from spectool.planning.models import Model, UnknownError  # noqa: PLC0415 - only with a launch
    from spectool.planning.parallel import candidates, obstacles  # noqa: PLC0415 - only with a launch

    launch = context.launched
    if not context.sized:
        return
    model = launch.model
    if model is None:
        # The drafter alone: a verifier that divides by anything.
        size = context.drafter.dimensions
        sizes = {"num_attention_heads": size.num_heads, "num_key_value_heads": size.num_kv_heads}
        model = Model("the drafter", sizes, sizes, None)
        yield Abstain("the verifier's heads and widths (--verifier FOLDER)")
    try:
        experts = spread(model, launch.own)
        wrong = obstacles(launch.ranks, model, context.drafter, experts)
        fitting = [str(ranks) for ranks in candidates(max(launch.ranks, 8), model, context.drafter, experts)]
    except UnknownError as error:
        yield Abstain(str(error))
        return
    if wrong:
        own = [text for text in wrong if launch.model is not None or "drafter" in text]
        yield Hit(f"--tensor-parallel-size {launch.ranks}: {'; '.join(own)}", f"These divide: {', '.join(fitting)}.")
    yield from _context_ranks(context)


def _context_ranks(context: Context) -> Iterator[Hit]:
    """What vLLM wants of --decode-context-parallel-size: of the ranks, and of a verifier without latent attention."""
    from spectool.planning.models import UnknownError  # noqa: PLC0415 - only with a launch

    launch, size = context.launched, _context_parallel(context)
    name = f"--decode-context-parallel-size {size}"
    if size == 1:
        return
    if launch.ranks % size:
        yield Hit(f"{name} does not divide --tensor-parallel-size {launch.ranks}")
        return
    model = launch.model
    if model is None or "kv_lora_rank" in model.text:
        return  # latent attention has one head for all
    try:
        heads, shared = model.heads, model.kv_heads
    except UnknownError:
        return
    if not heads or not shared:
        return
    if launch.ranks <= shared or size > launch.ranks // shared:
        yield Hit(f"{name} wants {size * shared} ranks or more: {model.name} has {shared} KV heads")
    elif heads // shared % size:
        yield Hit(f"{name} does not divide the {heads // shared} query heads per KV head")


def _context_parallel(context: Context) -> int:
    text = context.launched.value("--decode-context-parallel-size", "-dcp")
    return int(text) if text is not None and text.isdecimal() and int(text) > 0 else 1


@rule(
    "PAR002",
    "draft-tensor-parallel",
    scope="launch",
    summary="draft_tensor_parallel_size is neither 1 nor the verifier's.",
    why="vLLM takes no other value; and for these methods the draft layers follow the verifier's ranks in any case.",
    fix="Leave draft_tensor_parallel_size out.",
    references=(f"{_SPECULATIVE} _verify_and_get_draft_tp",),
)
def draft_tensor_parallel(context: Context) -> Iterator[Hit]:
    """Compares it with the launch's ranks."""
    given = context.launched.speculative.get("draft_tensor_parallel_size")
    if given is not None and (not is_int(given) or given not in (1, context.launched.ranks)):
        yield Hit(f"draft_tensor_parallel_size is {given!r}, with --tensor-parallel-size {context.launched.ranks}")


@rule(
    "PAR003",
    "pipeline-parallel",
    scope="launch",
    summary="The launch has pipeline stages over which this pair cannot draft.",
    why=(
        "The drafter lives on the last stage and reads hidden states of layers on earlier ones. Only some verifiers "
        "relay them, from vLLM 0.30 on, and P-EAGLE's model runner never does."
    ),
    fix="Use --tensor-parallel-size in place of --pipeline-parallel-size.",
    references=(
        "vLLM 0.33 v1/worker/gpu/spec_decode/eagle/eagle3_utils.py verify_supports_aux_hidden_states_over_pp",
        "vLLM 0.33 v1/worker/gpu_model_runner.py: only the last stage makes a drafter and sets aux layers",
        "github.com/vllm-project/vllm pull 50514",
    ),
)
def pipeline(context: Context) -> Iterator[Hit | Abstain]:
    """Looks at the method, the release and the verifier's class."""
    stages, facts = context.launched.stages, context.facts
    if stages == 1:
        return
    name = context.verifier.architectures[0] if context.verifier and context.verifier.architectures else None
    if context.method == "peagle":
        yield Hit(f"P-EAGLE with {stages} pipeline stages: its aux hidden states stay on the stages that compute them")
    elif "aux_over_stages" not in facts.features:
        yield Hit(f"{facts.title} relays no aux hidden states over {stages} pipeline stages")
    elif name in _NO_RELAY:
        yield Hit(f"{name} relays no aux hidden states over {stages} pipeline stages")
    elif name not in _RELAY:
        yield Abstain(f"whether {name or 'the verifier'} relays aux hidden states over pipeline stages")


@rule(
    "PAR004",
    "context-parallel",
    scope="launch",
    severity="warning",
    summary="Decode context parallelism with a drafter of ordinary attention.",
    why="The drafter's cache is split as well: acceptance near zero, or an assertion, in several reports. From 0.31 on "
    "model runner V2 gives DFlash and DSpark drafters a whole one; V1 and P-EAGLE have not changed.",
    fix="Leave --decode-context-parallel-size at 1, or use vLLM 0.31 or newer for DFlash and DSpark.",
    references=(
        "github.com/vllm-project/vllm issues 46514, 48392, 56723, 53673",
        "vLLM 0.31 v1/worker/gpu/spec_decode/dflash/speculator.py: decode_context_parallel_size=1 (0.30: as launched)",
        "vLLM 0.33 v1/worker/gpu_model_runner.py: dcp_local_seq_lens, for the drafter too",
    ),
)
def context_parallel(context: Context) -> Iterator[Hit]:
    """Fires above 1, where the drafter is split: no drafter of these methods has latent attention."""
    size = _context_parallel(context)
    whole = first_runner(context) is None and release_of(context.facts.version) >= _WHOLE_DRAFT_CACHE
    if size > 1 and not whole:
        yield Hit(f"--decode-context-parallel-size {size} splits the drafter's cache too")


@rule(
    "PAR005",
    "more-gpus-than-there-are",
    scope="launch",
    summary="The launch wants more GPUs than it is given.",
    why="vLLM refuses a world larger than the GPUs it sees, unless several machines are named.",
    fix="Lower --tensor-parallel-size or --data-parallel-size, or name more GPUs.",
    references=("vLLM 0.33 config/parallel.py: World size is larger than the number of available GPUs",),
)
def world(context: Context) -> Iterator[Hit]:
    """Multiplies the three sizes and compares, where GPUs are named and one machine is meant."""
    launch = context.launched
    if launch.gpus is None or launch.has("--nnodes", "-n", "--distributed-executor-backend"):
        return
    copies = launch.own.data_parallel or 1
    wanted = launch.ranks * launch.stages * copies
    if wanted > launch.gpus.count:
        parts = f"{launch.ranks} ranks x {launch.stages} stages x {copies} copies"
        yield Hit(f"{parts} are {wanted} GPUs, and there are {launch.gpus.count}")


@rule(
    "PAR006",
    "expert-parallel",
    scope="launch",
    summary="vLLM refuses to spread the experts as the launch says.",
    why="Expert parallelism needs a verifier with experts; vLLM 0.30 alone asks the same of the drafter. Load "
    "balancing needs expert parallelism over two ranks or more. Without it each expert is split over the ranks of all "
    "copies; before 0.29 in whole blocks of its quantisation only.",
    fix="Leave --enable-expert-parallel and --enable-eplb out.",
    references=(
        "vLLM 0.20 to 0.33 config/model.py _verify_with_expert_parallelism",
        "vLLM 0.30 config/speculative.py create_draft_parallel_config (0.29 and 0.31: not for a dense drafter)",
        "vLLM 0.33 config/parallel.py: enable_expert_parallel must be True to use EPLB",
        "vLLM 0.20 to 0.28 model_executor/layers/quantization/fp8.py: is not divisible by weight quantization block_n",
    ),
)
def expert_parallel(context: Context) -> Iterator[Hit | Abstain]:
    """Looks at the verifier's experts, the drafter's, and the ranks of all copies."""
    launch, model = context.launched, context.launched.model
    ranks, whole = launch.ranks * (launch.own.data_parallel or 1), launch.own.expert_parallel
    if launch.has("--enable-eplb") and (not whole or ranks == 1):
        what = f"on {ranks} rank{'' if ranks == 1 else 's'}" if whole else "without --enable-expert-parallel"
        yield Hit(f"--enable-eplb {what}", "Leave --enable-eplb out.")
    spare = as_whole(launch.document("--eplb-config").get("num_redundant_experts"))
    if is_int(spare) and spare > 0 and not launch.has("--enable-eplb"):
        yield Hit(f"--eplb-config has num_redundant_experts {spare} without --enable-eplb")
    if launch.has("--enable-elastic-ep") and not launch.has("--enable-eplb"):
        yield Hit("--enable-elastic-ep without --enable-eplb")
    if launch.has("--enable-return-routed-experts") and model is not None and not model.experts:
        yield Hit(f"--enable-return-routed-experts: {model.name} has no experts")
    if whole and model is None:
        yield Abstain("whether the verifier has experts (--verifier FOLDER)")
    elif whole and model is not None and not model.experts:
        yield Hit(f"--enable-expert-parallel: {model.name} has no experts")
    elif whole and release_of(context.facts.version) == _EXPERTS_INHERITED and not _drafter_experts(context):
        yield Hit(
            f"--enable-expert-parallel: {context.facts.title} wants experts of the drafter too, which has none",
            "Use another vLLM, or leave --enable-expert-parallel out.",
        )
    elif not whole and model is not None and model.experts:
        yield from _split_blocks(context, model, ranks)


def _split_blocks(context: Context, model: Model, ranks: int) -> Iterator[Hit]:
    width, block = model.text.get("moe_intermediate_size"), lookup(model.config, _BLOCK)
    if (
        release_of(context.facts.version) < _BLOCKS_REFINED
        and is_int(width)
        and isinstance(block, list)
        and block
        and is_int(block[0])
        and width % ranks == 0
        and width // ranks % block[0]
    ):
        yield Hit(
            f"{ranks} ranks hold {width // ranks} columns of each expert of {model.name}, no multiple of its "
            f"quantisation's block of {block[0]}: {context.facts.title} refuses",
            "Add --enable-expert-parallel, which splits no expert, use fewer ranks, or vLLM 0.29 or newer.",
        )


def _drafter_experts(context: Context) -> int:
    from spectool.planning.models import model_of  # noqa: PLC0415 - only with a launch

    layer = context.view.config.get("transformer_layer_config")
    return model_of("the drafter", layer if isinstance(layer, dict) else context.view.config).experts
