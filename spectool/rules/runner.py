"""RUN: which of vLLM's two model runners a launch chooses, and which one the drafter needs."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.planning.parsing_values import whole
from spectool.rules.context import Context
from spectool.rules.registry import Hit, rule

RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
_CONFIG = "vLLM 0.33 config/vllm.py use_v2_model_runner"
_OVERLAPPING = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


def first_runner(context: Context) -> str | None:
    """Say why the launch runs on model runner V1; None where it does not, as far as its words tell."""
    launch = context.launched
    forced = forced_runner(context)
    if forced is False:
        return f"{RUNNER}={launch.environment[RUNNER]}"
    if context.method == "peagle":
        return "P-EAGLE"
    if forced is True:
        return None
    if launch.triton is False:
        return "the engine has no Triton"
    if launch.has("--enable-dbo"):
        return "--enable-dbo"
    if launch.value("--distributed-executor-backend") == "external_launcher" and launch.stages > 1:
        return "external_launcher with pipeline stages"
    return None


def forced_runner(context: Context) -> bool | None:
    """Say whether the environment asks for runner V2: a number other than 0 does; None where it says nothing."""
    number = whole(context.launched.environment.get(RUNNER, ""))
    return None if number is None else number != 0


def _mixed(context: Context) -> bool:
    windows = {layer.window is None for layer in context.drafter.attention}
    return context.method == "dflash" and len(windows) > 1


@rule(
    "RUN001",
    "needs-runner-v2",
    scope="launch",
    summary="The launch chooses model runner V1, on which this drafter does not run.",
    why=(
        "DSpark, DFlash with sliding beside full layers, adaptive verification and a quantised draft head exist in "
        "model runner V2 only."
    ),
    fix=f"Leave {RUNNER} unset, and drop the flag that forces V1.",
    references=(_CONFIG, "github.com/vllm-project/vllm issue 50851"),
)
def needs_second(context: Context) -> Iterator[Hit]:
    """Compares what the drafter and the speculative configuration need with what the launch forces."""
    reason = first_runner(context)
    if reason is None or reason == "P-EAGLE":
        needs = []
    elif context.method == "dspark":
        needs = ["DSpark"]
    else:
        needs = ["DFlash with sliding beside full layers"] if _mixed(context) else []
    if reason is not None:
        speculative = context.launched.speculative
        needs += ["adaptive verification"] if speculative.get("enable_adaptive_verification") is True else []
        needs += ["draft_lm_head_quantization"] if speculative.get("draft_lm_head_quantization") is not None else []
    if needs:
        says = "refuses" if "runner_v1_refuses" in context.facts.features else "fails with"
        yield Hit(f"model runner V1 ({reason}): {context.facts.title} {says} {', '.join(needs)} there")


@rule(
    "RUN002",
    "needs-runner-v1",
    scope="launch",
    methods=("peagle",),
    summary="The launch forces model runner V2, which does not run P-EAGLE.",
    why="V2's speculator drafts token by token; V2 forced by the environment is refused, not replaced.",
    fix=f"Leave {RUNNER} unset: vLLM falls back to V1 by itself.",
    references=("vLLM 0.33 config/vllm.py _get_v2_model_runner_unsupported_features",),
)
def needs_first(context: Context) -> Iterator[Hit]:
    """Fires when the environment asks for V2."""
    if forced_runner(context) is True:
        yield Hit(f"{RUNNER}={context.launched.environment[RUNNER]}, and P-EAGLE runs on model runner V1 only")


@rule(
    "RUN004",
    "runner-v1-other-aux-layers",
    scope="launch",
    methods=("dflash",),
    summary="Model runner V1 does not read where this drafter names its aux layers.",
    why="It looks at dflash_config.target_layer_ids, not at target_layer_ids beside it, and then takes the layers that "
    "the verifier's class has by default: with three aux layers nothing but the acceptance shows it.",
    fix="Drop what forces V1, or convert the folder with `spectool convert`.",
    references=("vLLM 0.33 v1/worker/gpu_model_runner.py _get_eagle3_aux_layers_from_config",),
)
def other_layers(context: Context) -> Iterator[Hit]:
    """Fires where the ids stand at the top of a native folder alone."""
    reason, config = first_runner(context), context.view.config
    if reason is not None and isinstance(config.get("eagle_config"), dict):
        yield Hit(
            f"model runner V1 ({reason}) looks for the aux layers in eagle_config, which a DFlash file has none in"
        )
        return
    own = config.get("dflash_config")
    nested = isinstance(own, dict) and own.get("target_layer_ids")
    if reason is None or nested or "speculators_model_type" in config or config.get("eagle_aux_hidden_state_layer_ids"):
        return
    if config.get("target_layer_ids"):
        yield Hit(f"model runner V1 ({reason}) does not read target_layer_ids outside dflash_config")


@rule(
    "RUN003",
    "runner-v1-refuses",
    scope="launch",
    summary="The launch asks model runner V1 for what it does not do.",
    why="P-EAGLE always runs on V1, the others where something forces it; V1 has no prefill context parallelism, no "
    "pipeline stages with asynchronous scheduling, and no custom logits processors beside drafting.",
    fix="Drop the flag named in the message.",
    references=(
        "vLLM 0.33 config/vllm.py _get_v1_model_runner_unsupported_features",
        "vLLM 0.33 v1/sample/logits_processor/__init__.py",
    ),
)
def first_refuses(context: Context) -> Iterator[Hit]:
    """Looks at the flags V1 has no support for."""
    reason, launch = first_runner(context), context.launched
    if reason is None:
        return
    prefill = launch.value("--prefill-context-parallel-size", "-pcp")
    if prefill is not None and prefill.isdecimal() and int(prefill) > 1:
        yield Hit(f"--prefill-context-parallel-size {prefill} on model runner V1 ({reason})")
    if launch.has("--async-scheduling") and launch.own.async_scheduling and launch.stages > 1:
        yield Hit(f"--async-scheduling with {launch.stages} pipeline stages on model runner V1 ({reason})")
    if launch.has("--enable-return-routed-experts"):
        yield Hit(f"--enable-return-routed-experts on model runner V1 ({reason})")
    if launch.has("--logits-processors"):
        yield Hit(f"--logits-processors beside a drafter on model runner V1 ({reason})")


@rule(
    "RUN005",
    "runner-variable",
    scope="launch",
    summary="The variable that chooses the model runner is no number.",
    why="vLLM reads it with Python's int: 0 is model runner V1, any other number V2; `true`, or nothing behind the "
    "equals sign, is an error at start.",
    fix=f"Leave {RUNNER} unset, or write 0 or 1.",
    references=("vLLM 0.32 envs.py maybe_convert_bool",),
)
def runner_variable(context: Context) -> Iterator[Hit]:
    """Looks at its value."""
    text = context.launched.environment.get(RUNNER)
    if text is not None and whole(text) is None:
        yield Hit(f"{RUNNER} is {text!r}")


@rule(
    "RUN006",
    "micro-batches",
    scope="launch",
    summary="The launch wants micro-batches (dual batch overlap) beside something they do not go with.",
    why="They need an all-to-all backend of DeepEP or NIXL, and model runner V2 has them not beside a drafter.",
    fix="Leave --enable-dbo and --ubatch-size out.",
    references=(
        "vLLM 0.32 config/vllm.py: Microbatching currently only supports",
        "vLLM 0.32 config/vllm.py: dual batch overlap with speculative decoding",
    ),
)
def micro_batches(context: Context) -> Iterator[Hit]:
    """Looks at the backend, and at who asks for V2."""
    launch = context.launched
    size = whole(launch.value("--ubatch-size") or "0") or 0
    if not launch.has("--enable-dbo") and size <= 1:
        return
    flag = "--enable-dbo" if launch.has("--enable-dbo") else f"--ubatch-size {size}"
    backend = launch.value("--all2all-backend") or "allgather_reducescatter"
    if backend not in _OVERLAPPING:
        yield Hit(f"{flag} with --all2all-backend {backend}", f"It goes with {', '.join(_OVERLAPPING)}.")
    elif launch.has("--enable-dbo") and forced_runner(context) is True and context.method != "peagle":
        yield Hit(f"{flag} beside a drafter on model runner V2, which {RUNNER} asks for")
