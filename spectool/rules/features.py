"""FEA, BKD: what else a launch asks of the engine, beside a drafter."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.drafter.model import TITLES
from spectool.formats.lookup import is_int
from spectool.rules.context import Context
from spectool.rules.helpers import release_of
from spectool.rules.registry import Abstain, Hit, rule

_CONFIG = "vLLM 0.33 config/vllm.py"
# v1/attention/backends: supports_non_causal, by name; MLA backends serve verifiers of latent attention only.
_NON_CAUSAL = {
    *("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION", "CPU_ATTN", "ROCM_ATTN", "ROCM_AITER_FA"),
    "ROCM_SEGMENTED_ATTN",
}
_CAUSAL_ONLY = {"TURBOQUANT", "ROCM_AITER_UNIFIED_ATTN", "TREE_ATTN"}
_MLA_LAYOUTS = {"fp8_ds_mla", "nvfp4_ds_mla"}
# How the planner's families are cached where a layer keeps a recurrent state (spectool/data/planning/models.json).
_RECURRENT = {"gated_delta_net", "mamba"}


def _recurrent(context: Context) -> bool:
    model = context.launched.model
    return model is not None and model.family is not None and model.family.cache in _RECURRENT


@rule(
    "FEA001",
    "feature-excludes-drafting",
    scope="launch",
    summary="A flag of the launch excludes drafting.",
    why="Fast prefill of shared caches gives wrong logits for prompt tokens, which drafters read.",
    fix="Drop the flag.",
    references=(f"{_CONFIG}: Fast prefill optimization for KV sharing is not compatible with EAGLE",),
)
def excludes(context: Context) -> Iterator[Hit]:
    """Looks for the flag."""
    if context.launched.has("--kv-sharing-fast-prefill"):
        yield Hit("--kv-sharing-fast-prefill beside a drafter")


@rule(
    "FEA002",
    "watermark",
    scope="launch",
    summary="Watermarking beside a way of drafting it does not go with.",
    why="It needs probabilistic drafts, standard rejection, a DSpark drafter (from 0.33 on DFlash too), and an "
    "algorithm with a second key for drafts.",
    fix="Drop --watermark-config, or set draft_sample_method to probabilistic where the method allows it.",
    references=(
        f"{_CONFIG} _check_supports_watermarking (0.32: without dflash)",
        "vLLM 0.33 config/watermarking.py",
    ),
)
def watermark(context: Context) -> Iterator[Hit]:
    """Checks what vLLM checks, in its order."""
    launch = context.launched
    if not launch.has("--watermark-config"):
        return
    keys = launch.speculative
    if keys.get("draft_sample_method") != "probabilistic":
        yield Hit(f"--watermark-config with draft_sample_method {keys.get('draft_sample_method', 'greedy')!r}")
    elif keys.get("rejection_sample_method", "standard") != "standard":
        yield Hit(f"--watermark-config with rejection_sample_method {keys['rejection_sample_method']!r}")
    elif context.method == "peagle" or (context.method == "dflash" and release_of(context.facts.version) < (0, 33)):
        yield Hit(f"--watermark-config with a {TITLES[context.method]} drafter, in {context.facts.title}")
    else:
        given = launch.document("--watermark-config")
        algorithm = given.get("algorithm", "gumbel")
        if not is_int(given.get("key")):
            yield Hit("--watermark-config names no key", "Give it one: '{\"key\": 1234}'.")
        elif algorithm != "dual_key_gumbel" and given.get("allow_target_only_watermarking") is not True:
            yield Hit(
                f"--watermark-config with algorithm {algorithm!r}, which marks no drafts",
                "Choose dual_key_gumbel, or set allow_target_only_watermarking.",
            )


@rule(
    "FEA003",
    "adapters-not-drafted",
    scope="launch",
    severity="note",
    summary="Adapters are not applied in the drafter.",
    why="Drafts for an adapter's requests come from the base model's drafter, and fewer are accepted.",
    fix="Measure with `spectool probe` on the adapter's own requests.",
    references=("vLLM 0.33 config/speculative.py", "github.com/vllm-project/vllm issue 52038"),
)
def adapters(context: Context) -> Iterator[Hit]:
    """Fires for --enable-lora."""
    if context.launched.has("--enable-lora"):
        yield Hit("--enable-lora: the drafter drafts for the base model")


@rule(
    "FEA004",
    "prefix-cache-lost",
    scope="launch",
    severity="warning",
    methods=("dflash", "dspark"),
    summary="Prefix caching is wanted on a verifier with recurrent layers, where a drafter of its own loses it.",
    why="Prefix hits fell from 99 % to none in reports with DFlash on such verifiers; repeated prompts then cost more "
    "than drafting saves.",
    fix="Compare repeated prompts with and without the drafter (`spectool probe`).",
    references=("github.com/vllm-project/vllm issues 51250, 50457, 54094",),
)
def prefix_cache(context: Context) -> Iterator[Hit]:
    """Fires where prefix caching is asked for by name."""
    launch = context.launched
    if launch.has("--enable-prefix-caching") and launch.own.prefix_caching and _recurrent(context):
        yield Hit(f"--enable-prefix-caching with {launch.model.name if launch.model else 'this verifier'}")


@rule(
    "FEA005",
    "drafts-see-text-only",
    scope="launch",
    severity="note",
    summary="The verifier takes images or sound, and the drafter sees text only.",
    why="vLLM hands the drafter token ids; acceptance after an image is lower than published for text.",
    fix="Nothing to do; with --language-model-only the verifier's encoders are left out.",
    references=("vLLM 0.33 v1/spec_decode/llm_base_proposer.py _warn_if_multimodal",),
)
def text_only(context: Context) -> Iterator[Hit]:
    """Looks for encoders in the verifier's config."""
    model = context.launched.model
    if model is None or context.launched.own.language_only:
        return
    found = [key for key in ("vision_config", "audio_config") if model.config.get(key)]
    if found:
        yield Hit(f"{model.name} has a {found[0]}")


@rule(
    "FEA006",
    "cache-connector",
    scope="launch",
    severity="warning",
    summary="A KV connector does not go with this drafter.",
    why="An empty cache group of DSpark keeps offloaded blocks from ever being found again; MoRIIO takes recurrent "
    "verifiers with DSpark only.",
    fix="Leave the connector out, or measure its hits with and without the drafter.",
    references=(
        "github.com/vllm-project/vllm issue 47890",
        "vLLM 0.32 distributed/kv_transfer/kv_connector/v1/moriio/moriio_connector.py _validate_hybrid_speculation",
    ),
)
def connector(context: Context) -> Iterator[Hit]:
    """Looks at the connector's name."""
    given = context.launched.document("--kv-transfer-config")
    name = str(given.get("kv_connector", ""))
    if name == "OffloadingConnector" and context.method == "dspark":
        yield Hit(f"{name} with DSpark never hits")
    if name == "MoRIIOConnector" and context.method != "dspark" and _recurrent(context):
        yield Hit(f"{name} with a verifier of recurrent layers and {context.method}")


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
    given = context.launched.speculative.get("attention_backend")
    looks = any(not layer.causal for layer in context.drafter.attention)
    if not isinstance(given, str) or given.lower() == "auto" or not looks:
        return
    if given.upper() in _CAUSAL_ONLY:
        yield Hit(f"attention_backend {given}: it has no bidirectional attention, the drafter's layers need it")
    elif given.upper() not in _NON_CAUSAL:
        yield Abstain(f"whether the attention backend {given} can attend in both directions")


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
    if isinstance(inherited, str) and inherited in _MLA_LAYOUTS:
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
    if own.startswith("fp8") and launch.own.kv_dtype in (None, "auto") and _recurrent(context):
        yield Hit(f"kv_cache_dtype {own} for the drafter, auto for the verifier")
