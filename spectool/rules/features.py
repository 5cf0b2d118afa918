"""FEA: what else a launch asks of the engine, beside a drafter."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from spectool.drafter.model import TITLES
from spectool.formats.lookup import is_int
from spectool.rules.context import Context
from spectool.rules.helpers import recurrent, release_of
from spectool.rules.registry import Hit, rule

_CONFIG = "vLLM 0.33 config/vllm.py"


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
    if launch.has("--enable-prefix-caching") and launch.own.prefix_caching and recurrent(context):
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
        what = " and ".join({"vision_config": "images", "audio_config": "sound"}[key] for key in found)
        yield Hit(f"{model.name} takes {what}, the drafter sees token ids only: less is accepted after one")


@rule(
    "FEA007",
    "cache-connector-settings",
    scope="launch",
    summary="--kv-transfer-config names no connector of this release, or no role.",
    why="vLLM refuses it at start.",
    fix="Name a connector and its kv_role: kv_producer, kv_consumer or kv_both.",
    references=(
        "vLLM 0.32 config/kv_transfer.py: Please specify kv_role when kv_connector is set",
        "vLLM 0.32 distributed/kv_transfer/kv_connector/factory.py, register_connector",
    ),
)
def connector_settings(context: Context) -> Iterator[Hit]:
    """Looks the name up; one with a module of its own may be anybody's."""
    from spectool.planning.parser import table  # noqa: PLC0415 - only with a launch

    given = context.launched.document("--kv-transfer-config")
    name, known = given.get("kv_connector"), table(context.facts.version).kv_connectors
    if not given:
        return
    if name is None:
        yield Hit("--kv-transfer-config names no kv_connector")
        return
    if given.get("kv_role") is None:
        yield Hit(f"--kv-transfer-config names {name} and no kv_role")
    if known and name not in known and given.get("kv_connector_module_path") is None:
        near = next(iter(get_close_matches(str(name), known, 1)), None)
        what = f"--kv-transfer-config: {context.facts.title} has no connector {name!r}"
        yield Hit(what, f"Did you mean {near}?" if near else None)


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
    if name == "MoRIIOConnector" and context.method != "dspark" and recurrent(context):
        yield Hit(f"{name} with a verifier of recurrent layers and {context.method}")
