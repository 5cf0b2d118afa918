"""DSpark's adaptive verification: what vLLM refuses beside it, and whether its conditions hold for a launch.

vLLM then decides per step how many drafts of each request are verified, from the drafter's confidence and the costs
of steps it measured at start (v1/worker/gpu/spec_decode/adaptive_verification.py). What changed by release is data
(`vllm-features.toml`). What was not read is no yes: the plan then says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spectool.formats.lookup import is_int
from spectool.planning import flags

if TYPE_CHECKING:
    from spectool.drafter.model import Drafter, Method
    from spectool.engine.facts import EngineFacts
    from spectool.planning.models import Model
    from spectool.rules.launch import Launch

KEY = "enable_adaptive_verification"
_SCHEDULE = "num_speculative_tokens_per_batch_size"
# Graphs by optimization level (config/vllm.py, OPTIMIZATION_LEVEL_00 to _03; 2 where none is given).
_BY_LEVEL = {"0": "NONE", "1": "PIECEWISE"}
_FULL = ("FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
# The widest head of FlashAttention 2 and 3; for wider ones vLLM chooses another way (Gemma4Config and selectors).
_WIDEST_HEAD = 256
_RECURRENT = "linear attention plans on the CPU's query lengths, which it trims on the GPU"
# Verifiers with plain causal attention in every layer: no sinks, no image prefixes, no recurrent state.
_PLAIN = ("glm4_moe", "llama", "mistral", "qwen2", "qwen3", "qwen3_moe")


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Whether adaptive verification may choose K. `reasons`: every condition that holds, or those that do not."""

    holds: bool
    reasons: tuple[str, ...]

    @property
    def line(self) -> str:
        """One line for people."""
        if self.holds:
            setting = f"--speculative-config '{{\"{KEY}\": true}}'"
            return f"adaptive verification may choose K here ({setting}), measure it: {'; '.join(self.reasons)}"
        return f"adaptive verification is not advised here: {'; '.join(self.reasons)}"


def graphs(launch: Launch) -> str:
    """Return the mode of CUDA graphs a launch asks for, by vLLM's name."""
    if launch.has("--enforce-eager"):
        return "NONE"
    names = ("--compilation-config", "-cc", "-O")
    given = launch.document(*names).get("cudagraph_mode")
    for name in names:
        given = launch.value(f"{name}.cudagraph_mode") or given
    if given is not None:
        return str(given).upper()
    level = launch.value("-O", "--optimization-level")
    for flag in flags.given(launch.words):
        level = flag.name[2:] if flag.name in ("-O0", "-O1", "-O2", "-O3") else level
    return _BY_LEVEL.get(level or "", "FULL_AND_PIECEWISE")


def refused(facts: EngineFacts, method: Method, launch: Launch, *, confidence: bool) -> list[str]:
    """Return what vLLM refuses at start beside adaptive verification.

    Args:
        facts: of a release that has adaptive verification.
        method: the drafter's.
        launch: the flags and keys.
        confidence: whether the drafter has a confidence head.

    """
    has = facts.features
    found = []
    if method != "dspark" and "adaptive_other_methods" not in has:
        found.append("another method than DSpark")
    if method == "dspark" and not confidence and "adaptive_without_confidence" not in has:
        found.append("a drafter without confidence head")
    found += ["--enable-lora"] if launch.has("--enable-lora") else []
    for feature, flag in (
        ("adaptive_refuses_routed", "--enable-return-routed-experts"),
        ("adaptive_refuses_replay", "--return-sampling-mask"),
        ("adaptive_refuses_sharded", "--enable-batch-sharded-sampling"),
    ):
        found += [flag] if feature in has and launch.has(flag) else []
    found += ["pipeline stages"] if launch.stages > 1 else []
    mode = graphs(launch)
    if mode == "NONE" or (mode not in _FULL and "adaptive_full_graphs" in has):
        found.append("a launch without full CUDA graphs")
    argmax = launch.speculative.get("use_local_argmax_reduction") is True
    if argmax and (method != "dspark" or not confidence):
        found.append("use_local_argmax_reduction")
    return found


def stopped(facts: EngineFacts, model: Model, capability: tuple[int, int], launch: Launch) -> str | None:
    """Say why vLLM's worker stops at the verifier's attention; None where it does not, or nothing is known of it.

    Args:
        facts: of a release that has adaptive verification.
        model: the verifier.
        capability: compute capability of the GPUs.
        launch: the flags.

    """
    if "linear_attention" in (model.text.get("layer_types") or ()):
        return _RECURRENT
    backend = _backend(facts, capability, launch)
    if backend not in ("FLASH_ATTN", "FLASHINFER") or any(_unread(model, launch)):
        return None
    return _why_no_graphs(facts, backend, capability)


def adaptive(
    facts: EngineFacts, drafter: Drafter, model: Model, capability: tuple[int, int], launch: Launch, *, measured: bool
) -> Adaptive | None:
    """Judge a DSpark launch; None for another method, for which it is not advised at all.

    Args:
        facts: of the vLLM release.
        drafter: as the engine runs it.
        model: the verifier.
        capability: compute capability of the GPUs.
        launch: the flags and keys.
        measured: whether a profile chooses K.

    """
    if drafter.method != "dspark":
        return None
    if KEY not in facts.speculative_config_keys:
        return Adaptive(holds=False, reasons=(f"{facts.title} does not have it (0.28 brought it)",))
    confidence = drafter.confidence is not None
    against = [
        f"{facts.title} refuses it with {what}" for what in refused(facts, "dspark", launch, confidence=confidence)
    ]
    against += _beside(launch, measured=measured)
    unread = list(_unread(model, launch))
    backend = _backend(facts, capability, launch)
    why = None if unread else _why_no_graphs(facts, backend, capability)
    against += [*unread, *([why] if why else [])]
    if against:
        return Adaptive(holds=False, reasons=tuple(against))
    head = "the drafter has a confidence head"
    if not confidence:
        head = "without a confidence head, acceptance is estimated while serving"
    shown = f"{capability[0]}.{capability[1]}"
    reasons = [
        f"{facts.title} has it",
        head,
        f"CUDA graphs are {graphs(launch)}",
        f"{backend} replays them at any number of drafts on compute capability {shown}",
        "no adapters, pipeline stages or copies",
    ]
    if backend == "FLASHINFER":
        reasons.append("FlashInfer's trtllm-gen kernels must be within reach")
    if "adaptive_refuses_logprobs" in facts.features:
        reasons.append("requests must not ask for log probabilities")
    return Adaptive(holds=True, reasons=tuple(reasons))


def _beside(launch: Launch, *, measured: bool) -> Iterator[str]:
    """Yield what vLLM does not refuse, and still speaks against it."""
    if launch.environment.get("VLLM_USE_V2_MODEL_RUNNER") == "0" or launch.has("--enable-dbo"):
        yield "it needs model runner V2, and the launch forces V1"
    if (launch.own.data_parallel or 1) > 1:
        yield "it was not seen with data parallelism"
    for name in ("--decode-context-parallel-size", "--prefill-context-parallel-size"):
        short = {"--decode-context-parallel-size": "-dcp", "--prefill-context-parallel-size": "-pcp"}[name]
        if launch.value(name, short) not in (None, "1"):
            yield f"it was not seen with {name}"
    if launch.speculative.get(_SCHEDULE) is not None:
        yield f"{_SCHEDULE} chooses K already"
    elif measured:
        yield "the profile chooses K, which was measured"


def _unread(model: Model, launch: Launch) -> Iterator[str]:
    """Yield why nothing is known of the attention backend."""
    kinds = model.text.get("layer_types") or ()
    if "linear_attention" in kinds:
        yield _RECURRENT
    elif model.text.get("kv_lora_rank") is not None:
        yield "which backends of latent attention (MLA) can do it was not read"
    elif model.config.get("model_type") not in _PLAIN or set(kinds) - {"full_attention", "sliding_attention"}:
        yield f"which attention backend vLLM takes for {model.config.get('model_type')} was not read"
    else:
        widths = [model.text.get("head_dim"), model.text.get("global_head_dim")]
        if any(is_int(width) and width > _WIDEST_HEAD for width in widths):
            yield f"which attention backend vLLM takes for heads wider than {_WIDEST_HEAD} was not read"
    if launch.own.kv_dtype not in (None, "auto", "bfloat16", "float16"):
        yield f"it was not read with --kv-cache-dtype {launch.own.kv_dtype}"
    if launch.has("--attention-config", "-ac"):
        yield "it was not read with --attention-config"


def _backend(facts: EngineFacts, capability: tuple[int, int], launch: Launch) -> str:
    """Return the verifier's attention backend: the one asked for, else vLLM's first that takes trimmed batches.

    platforms/cuda.py, _get_backend_priorities: FLASHINFER comes first on compute capability 10, FLASH_ATTN elsewhere.
    """
    asked = launch.value("--attention-backend")
    if asked is not None and asked.lower() != "auto":
        return asked.upper()
    return "FLASHINFER" if capability[0] == 10 and "adaptive_flashinfer" in facts.features else "FLASH_ATTN"


def _why_no_graphs(facts: EngineFacts, backend: str, capability: tuple[int, int]) -> str | None:
    """Say why a backend's graphs do not replay batches of any query length; None where they do.

    `_cudagraph_support` of each builder in v1/attention/backends, and get_flash_attn_version.
    """
    has, shown = facts.features, f"{capability[0]}.{capability[1]}"
    if backend in ("TRITON_ATTN", "FLEX_ATTENTION"):
        return None
    if backend == "FLASH_ATTN":
        if capability[0] == 9 or (capability[0] == 10 and "flash_attn_4_any_batch" in has):
            return None
        return (
            f"graphs of FLASH_ATTN on compute capability {shown} need drafts of equal length in {facts.title}; "
            "--attention-backend TRITON_ATTN would do"
        )
    if backend == "FLASHINFER":
        if capability[0] == 10 and {"adaptive_flashinfer", "adaptive_bounded_graphs"} <= has:
            return None
        return f"FLASHINFER on compute capability {shown} cannot do it in {facts.title}"
    return f"whether {backend} can do it was not read"
