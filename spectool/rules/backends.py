"""BKD: the drafter's attention backend and KV cache dtype."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.planning import backends
from spectool.rules.context import Context
from spectool.rules.helpers import recurrent, release_of
from spectool.rules.registry import Abstain, Hit, rule


@rule(
    "BKD001",
    "backend-cannot-look-ahead",
    scope="launch",
    methods=("dflash", "dspark"),
    summary="The drafter's attention backend attends causally only.",
    why="Layers of a block look both ways; vLLM refuses a backend that cannot, after the weights are loaded.",
    fix="Write FLASH_ATTN, FLASHINFER, TRITON_ATTN or FLEX_ATTENTION, or leave the key out.",
    references=("vLLM 0.33 v1/attention/backends/*.py supports_non_causal",),
)
def backend(context: Context) -> Iterator[Hit | Abstain]:
    """Looks at the drafter's own key: the verifier's backend is not inherited by these methods."""
    name = _named(context)
    if name is None or not _looks_both_ways(context):
        return
    able = backends.looks_both_ways(name, release_of(context.facts.version))
    if able is None:
        yield Abstain(f"whether the attention backend {name} can attend in both directions")
    elif not able:
        yield Hit(f"attention_backend {name}: in {context.facts.title} it has no bidirectional attention")


@rule(
    "BKD002",
    "cache-dtype-of-latent-attention",
    scope="launch",
    summary="The drafter would inherit a KV cache layout that only latent attention has.",
    why="Draft layers have ordinary heads; the layout of an MLA verifier breaks them at start.",
    fix='Add "kv_cache_dtype": "bfloat16" to the speculative configuration (vLLM 0.26 or newer).',
    references=("github.com/vllm-project/vllm issue 48380", "github.com/vllm-project/vllm pull 48787"),
)
def cache_dtype(context: Context) -> Iterator[Hit]:
    """Compares the launch's KV dtype with the drafter's own."""
    launch = context.launched
    own = launch.speculative.get("kv_cache_dtype")
    inherited = launch.own.kv_dtype if own is None else own
    if isinstance(inherited, str) and inherited in backends.dtypes("latent"):
        yield Hit(f"kv_cache_dtype {inherited} for a drafter of ordinary attention")


@rule(
    "BKD003",
    "cache-dtype-of-the-drafter",
    scope="launch",
    severity="warning",
    summary="An fp8 KV cache for the drafter alone, beside a verifier with recurrent layers.",
    why="Reported to fail with FlashInfer: 'Unrecognized dtype: auto'.",
    fix="Set --kv-cache-dtype of the verifier as well.",
    references=(
        "github.com/vllm-project/vllm issue 54690",
        "vLLM 0.33 v1/attention/backends/flashinfer.py get_dtype_for_flashinfer",
    ),
)
def drafter_alone(context: Context) -> Iterator[Hit]:
    """Fires where only the drafter's is set."""
    launch = context.launched
    own = str(launch.speculative.get("kv_cache_dtype", ""))
    if own.startswith("fp8") and launch.own.kv_dtype in (None, "auto") and recurrent(context):
        yield Hit(f"kv_cache_dtype {own} for the drafter, auto for the verifier")


@rule(
    "BKD004",
    "no-backend-for-the-drafter",
    scope="launch",
    methods=("dflash", "dspark"),
    summary="No attention backend of this vLLM runs the drafter's layers on these GPUs.",
    why="Layers of a block look both ways, on every backend from vLLM 0.24 on and on two before; few of them take an "
    "fp8 KV cache, and which depends on the GPU. vLLM stops with 'No valid attention backend found'.",
    fix="Leave --kv-cache-dtype at auto, or use vLLM 0.24 or newer.",
    references=(
        "vLLM 0.20 to 0.33 platforms/cuda.py get_valid_backends",
        "vLLM 0.20 to 0.33 v1/attention/backend.py validate_configuration",
        "github.com/vllm-project/vllm issue 41559",
    ),
)
def no_backend(context: Context) -> Iterator[Hit | Abstain]:
    """Asks the planner's table for what vLLM would take, where the GPUs are named."""
    yield from _without_gpus(context)
    layers = _layers(context)
    if layers is None:
        return
    name = _named(context)
    if name is not None:
        why = backends.obstacle(name, layers) if backends.known(name) else None
        # What BKD001 says of a backend is not said again.
        if why is not None and backends.looks_both_ways(name, release_of(context.facts.version)):
            yield Hit(f"attention_backend {name} {why}")
        return
    found = backends.chosen(layers)
    if found.backend is None:
        yield Hit(f"{context.facts.title}: {'; '.join(f'{other} {why}' for other, why in found.passed)}")


@rule(
    "BKD005",
    "backend-with-problems",
    scope="launch",
    severity="warning",
    methods=("dflash", "dspark"),
    summary="The drafter's layers would run on a backend that vLLM itself avoids for them.",
    why="On compute capability 10 vLLM takes FlashInfer first, whose bidirectional kernels there are known to have "
    "problems; from 0.26 on it takes FlashAttention for layers that look both ways.",
    fix='Add "attention_backend": "FLASH_ATTN" to the speculative configuration, or use vLLM 0.26 or newer.',
    references=("vLLM 0.26 to 0.33 platforms/cuda.py _get_backend_priorities",),
)
def backend_with_problems(context: Context) -> Iterator[Hit]:
    """Looks at the backend that would be taken, named or not."""
    layers = _layers(context)
    if layers is None:
        return
    name = _named(context) or backends.chosen(layers).backend
    found = backends.fault(name, layers) if name is not None else None
    if found is not None:
        gpu = context.launched.gpus.gpu.name if context.launched.gpus else ""
        yield Hit(f"{name} on {gpu}, in {context.facts.title}: {found[0]}")


def _without_gpus(context: Context) -> Iterator[Hit | Abstain]:
    """What can be said of a KV cache dtype where no GPUs are named, or where it is a packed one."""
    launch, name = context.launched, _named(context)
    dtype = launch.speculative.get("kv_cache_dtype", launch.own.kv_dtype) or "auto"
    if not isinstance(dtype, str) or dtype in backends.dtypes("latent") or not _looks_both_ways(context):
        return
    if dtype not in backends.dtypes("read"):
        if launch.speculative.get("kv_cache_dtype") is not None or launch.own.kv_dtype is not None:
            yield Abstain(f"which attention backend runs the drafter's layers with a KV cache of {dtype}")
    elif launch.gpus is None and dtype.startswith("fp8") and name is not None and backends.known(name):
        nowhere = backends.takes_nowhere(name, release_of(context.facts.version), dtype)
        if nowhere:
            yield Hit(f"{name} takes no KV cache of {dtype}, in {context.facts.title}")
        else:
            yield Abstain(f"whether {name} takes a KV cache of {dtype}, which depends on the GPU (--gpus NAME:COUNT)")


def _looks_both_ways(context: Context) -> bool:
    return any(not layer.causal for layer in context.drafter.attention)


def _named(context: Context) -> str | None:
    """Return the backend of the drafter's own key; None where vLLM chooses."""
    given = context.launched.speculative.get("attention_backend")
    return given.upper() if isinstance(given, str) and given.lower() != "auto" else None


def _layers(context: Context) -> backends.Layers | None:
    """Return what a backend must support; None where that is not known, or nothing looks both ways."""
    launch, drafter = context.launched, context.drafter
    dtype = launch.speculative.get("kv_cache_dtype", launch.own.kv_dtype) or "auto"
    if launch.gpus is None or drafter.sinks or not _looks_both_ways(context) or dtype not in backends.dtypes("read"):
        return None
    return backends.Layers(
        release_of(context.facts.version),
        launch.gpus.gpu.compute_capability,
        drafter.dimensions.head_dim,
        both_ways=True,
        dtype=str(dtype),
    )
