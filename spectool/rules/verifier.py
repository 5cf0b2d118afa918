"""VER: the model the drafter is to work for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spectool.engine.plain_verifiers import plain_verifier, unread
from spectool.engine.reading.strict import class_faults
from spectool.rules.context import Context
from spectool.rules.quantisation import key_missing
from spectool.rules.registry import Abstain, Hit, rule

_FLOATS = {"BF16", "F16", "F32", "F64"}
_SHOWN = 3
_ONE_KIND = {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


# Families whose publishers released quantised weights only, by architecture: config.json of openai/gpt-oss-20b,
# deepseek-ai/DeepSeek-V3, -V3.2 and -V4-Flash, moonshotai/Kimi-K2-Instruct, -K2.5 and -K3, MiniMaxAI/MiniMax-M2.5.
_BORN_QUANTISED = {
    ("GptOssForCausalLM", "mxfp4"),
    ("DeepseekV3ForCausalLM", "fp8"),
    ("DeepseekV32ForCausalLM", "fp8"),
    ("DeepseekV4ForCausalLM", "fp8"),
    ("KimiK25ForConditionalGeneration", "compressed-tensors"),
    ("KimiK3ForConditionalGeneration", "compressed-tensors"),
    ("MiniMaxM2ForCausalLM", "fp8"),
}


@rule(
    "VER001",
    "verifier-cannot-verify",
    summary="vLLM's class of the verifier does not hand out hidden states.",
    why="Every parallel drafter reads them; the engine fails at start with 'Model does not support EAGLE3 interface'.",
    fix="Use another verifier, or a vLLM release whose class implements SupportsEagle3.",
    references=("vLLM 0.33 model_executor/models/interfaces.py SupportsEagle3",),
)
def cannot_verify(context: Context) -> Iterator[Hit | Abstain]:
    """Looks the architecture up among the release's capable classes."""
    if context.verifier is not None and context.verifier_config is not None and not context.verifier.architectures:
        yield Hit(f"{context.verifier.name}/config.json names no architecture")
        return
    if context.verifier is None or not context.verifier.architectures:
        yield Abstain("the verifier's architecture (--verifier)")
        return
    name = context.verifier.architectures[0]
    if name not in context.facts.aux_capable:
        known = name in context.facts.known_architectures
        reason = "does not hand out aux hidden states" if known else "is not known"
        yield Hit(f"{name} {reason} in {context.facts.title}")


@rule(
    "VER002",
    "verifier-depth",
    summary="The drafter was trained for a verifier with another number of layers.",
    why="Its aux layers were chosen for that depth; a neighbour of the same family loads and accepts little.",
    fix="Use the verifier the drafter was trained for.",
    references=("github.com/vllm-project/vllm pull 48113",),
)
def depth(context: Context) -> Iterator[Hit | Abstain]:
    """Compares num_target_layers, where the layout stores it."""
    trained = context.reading.verifier_layers
    if trained is None:
        return
    if context.verifier is None:
        yield Abstain("the verifier's number of layers (--verifier)")
    elif trained != context.verifier.num_hidden_layers:
        yield Hit(f"trained for {trained} layers, {context.verifier.name} has {context.verifier.num_hidden_layers}")


@rule(
    "VER003",
    "verifier-width",
    summary="The verifier's hidden states are not as wide as fc expects.",
    why="They cannot be fed to the drafter.",
    fix="Use the verifier the drafter was trained for.",
    references=("github.com/vllm-project/vllm pull 48113", "github.com/vllm-project/vllm issue 18906"),
)
def width(context: Context) -> Iterator[Hit | Abstain]:
    """Compares the width of one aux layer with hidden_size."""
    if context.verifier is None:
        yield Abstain("the verifier's hidden size (--verifier)")
        return
    wanted, given = context.drafter.dimensions.target_hidden_size, context.verifier.hidden_size
    if wanted and wanted != given:
        yield Hit(f"the drafter reads hidden states of {wanted}, {context.verifier.name} has {given}")


@rule(
    "VER004",
    "verifier-tensors",
    summary="The verifier lacks the embedding or head that the drafter borrows.",
    why="DFlash and DSpark drafters usually ship neither; the engine takes the verifier's.",
    fix="Check that --verifier is the whole model.",
    references=("github.com/vllm-project/vllm pull 47390",),
)
def tensors(context: Context) -> Iterator[Hit | Abstain]:
    """Looks for the two tensors under the names verifiers use: plain, nested, prefixed, or tied."""
    borrowed = [name for name in ("embed_tokens.weight", "lm_head.weight") if name not in context.shapes]
    if not borrowed:
        return
    if context.verifier is None or context.verifier_tensors is None:
        yield Abstain("the verifier's tensor names (--verifier FOLDER with weights)")
        return
    for name in borrowed:
        wanted = ("embed_tokens.weight",) if context.verifier.tie_word_embeddings else (name,)
        rows = [item for key, item in context.verifier_tensors.items() if key.endswith(wanted)]
        if not rows:
            yield Hit(f"the drafter borrows {name}, and {context.verifier.name} has no tensor of that name")
        elif rows[0].shape[-1:] != (context.drafter.dimensions.hidden_size,):
            if context.drafter.dimensions.target_hidden_size != context.verifier.hidden_size:
                continue  # another verifier: rule VER003
            size = context.drafter.dimensions.hidden_size
            yield Hit(
                f"the drafter borrows {name} with rows of {size}, {context.verifier.name}'s are {list(rows[0].shape)}",
                f"A drafter of another width than its verifier ships its own {name}: use the complete checkpoint.",
            )


@rule(
    "VER005",
    "verifier-name-no-hub-id",
    severity="note",
    scope="engine",
    summary="speculators_config.verifier.name_or_path is no Hub id.",
    why="Only the short form `vllm serve DRAFTER` needs one; vLLM 0.33 refuses a local path there.",
    fix="Serve with `spectool serve` (long form), or convert with --set verifier=org/name.",
    references=("vLLM 0.33 transformers_utils/config.py maybe_override_with_speculators",),
)
def no_hub_id(context: Context) -> Iterator[Hit]:
    """Fires for any stated name that could not be a repository."""
    name = context.reading.verifier_name
    if name is not None and not _HUB_ID.fullmatch(name):
        yield Hit(f"verifier.name_or_path is {name!r}, so `vllm serve DRAFTER` alone cannot find the verifier")


@rule(
    "VER006",
    "tokenizers-differ",
    summary="The drafter's folder has a tokenizer, and it is not the verifier's.",
    why="Drafted ids then mean other tokens to the verifier: nothing is accepted, and no shape shows it.",
    fix="Use the verifier the drafter was trained for.",
    references=("github.com/vllm-project/vllm issues 13849, 42775",),
)
def tokenizers_differ(context: Context) -> Iterator[Hit | Abstain]:
    """Compares vocabularies by content, where both folders have one."""
    same = context.same_tokenizer()
    if same is False:
        yield Hit("the drafter's tokenizer.json maps tokens to other ids than the verifier's")
    elif same is None and "tokenizer.json" in context.view.side_files:
        yield Abstain("the verifier's tokenizer.json (--verifier FOLDER)")


@rule(
    "VER007",
    "verifier-quantised",
    severity="note",
    scope="engine",
    summary="The verifier is a quantised copy.",
    why="Most drafters are trained on the unquantised model; its hidden states differ, and so does acceptance.",
    fix="Expect somewhat less than published figures; `spectool probe` measures.",
    references=("github.com/vllm-project/speculators docs: verifier and training data should match",),
)
def quantised(context: Context) -> Iterator[Hit]:
    """Fires for a quantization_config, unless the original has it too or the drafter names this very copy."""
    if context.verifier is not None and context.verifier.quantization is not None:
        base = (context.reading.verifier_name or "").rpartition("/")[2]
        born = {(name, context.verifier.quantization) for name in context.verifier.architectures} & _BORN_QUANTISED
        if born or base.lower() == context.verifier.name.rpartition("/")[2].lower():
            return
        copy = f", a copy of {base}" if base and context.verifier.name.lower().startswith(f"{base.lower()}-") else ""
        yield Hit(f"{context.verifier.name} is quantised ({context.verifier.quantization}){copy}")


@rule(
    "VER008",
    "verifier-config",
    scope="engine",
    summary="The verifier's config.json does not fit the class that vLLM reads it with.",
    why="transformers' configuration classes hold every key against its type, and vLLM stops before it loads anything.",
    fix="Take config.json as the verifier's publisher has it, or correct the key named in the message.",
    references=("spectool/data/config-classes.json", "vLLM 0.32 run: stops at its configuration"),
)
def config(context: Context) -> Iterator[Hit]:
    """Fires for a missing model_type, for the first key the class would raise about, and for settings without a key."""
    stated = context.verifier_config
    if stated is None or context.verifier is None:
        return
    if not isinstance(stated.get("model_type"), str):
        yield Hit(f"model_type of {context.verifier.name} is {stated.get('model_type')!r}, no name of a class")
        return
    for fault in class_faults(stated, context.facts):
        yield Hit(f"{context.verifier.name}/config.json: {fault.message}")
        return
    settings = stated.get("quantization_config")
    if isinstance(settings, dict) and (gone := key_missing(settings, context.facts.version)) is not None:
        method = settings.get("quant_method")
        yield Hit(f"{context.verifier.name}/config.json: quantization_config of {method} has no {gone}")
        return
    kinds, first, layers = (stated.get(key) for key in ("layer_types", "max_window_layers", "num_hidden_layers"))
    # vLLM 0.33 model_executor/models/qwen2.py Qwen2Model, which Qwen3's is built on.
    if _first(context) in _ONE_KIND and isinstance(kinds, list) and len(set(kinds)) > 1 and first != layers:
        name = f"{context.verifier.name}/config.json"
        yield Hit(f"{name}: layers of several kinds, and max_window_layers is {first}, not {layers}")


def _first(context: Context) -> str | None:
    return next(iter(context.verifier.architectures), None) if context.verifier is not None else None


@rule(
    "VER009",
    "verifier-weights",
    scope="engine",
    summary="The verifier's weights are not what its config.json says.",
    why=(
        "vLLM stops at a tensor that no module has or that has another shape. What is missing it does not notice: the "
        "verifier then computes with whatever lay in memory, and so does every draft that is checked by it."
    ),
    fix="Take the whole checkpoint as its publisher has it.",
    references=(
        "vLLM 0.33 model_executor/models/{llama,qwen2,qwen3}.py",
        "vLLM 0.32 run: without `model.` it stops at load, without lm_head it runs",
    ),
)
def weights(context: Context) -> Iterator[Hit]:
    """Looks at dense classes whose weights are whole and not quantised; others have more ways to be right."""
    otherwise = context.verifier_loaded_otherwise
    if otherwise is not None and otherwise.sure and context.verifier is not None:
        yield Hit(f"{context.verifier.name}: {otherwise.message}")
    config, found = context.verifier_config, context.verifier_tensors
    if config is None or found is None or context.verifier is None or not context.verifier_whole:
        return
    expected = plain_verifier(config)
    if expected is None or context.verifier.quantization is not None or any(class_faults(config, context.facts)):
        return
    borrowed = [name for name in ("embed_tokens.weight", "lm_head.weight") if name not in context.shapes]  # rule VER004
    wrong = {
        "no module of its class has": [name for name in found if name not in expected and not unread(name, config)],
        "missing": [name for name in expected if name not in found and not name.endswith(tuple(borrowed))],
        "of another dtype": [f"{name} ({item.dtype})" for name, item in found.items() if item.dtype not in _FLOATS],
    }
    size = context.drafter.dimensions
    if (size.target_hidden_size, size.vocab_size) == (context.verifier.hidden_size, context.verifier.vocab_size):
        wrong["of another shape"] = [  # rules VER003 and VOC001
            f"{name} ({list(found[name].shape)}, not {list(shape)})"
            for name, shape in expected.items()
            if name in found and tuple(found[name].shape) != shape
        ]
    for what, names in wrong.items():
        if names:
            rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            yield Hit(f"{context.verifier.name}: {what}: {', '.join(names[:_SHOWN])}{rest}")
