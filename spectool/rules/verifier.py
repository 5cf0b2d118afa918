"""VER: the model the drafter is to work for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from spectool.resources import package_data
from spectool.rules.context import Context
from spectool.rules.registry import Abstain, Hit, rule

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


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
        if any(_born(name, context.verifier.quantization) for name in context.verifier.architectures):
            return
        if base.lower() == context.verifier.name.rpartition("/")[2].lower():
            return
        copy = f", a copy of {base}" if base and context.verifier.name.lower().startswith(f"{base.lower()}-") else ""
        yield Hit(f"{context.verifier.name} is quantised ({context.verifier.quantization}){copy}")


def _born(architecture: str, quantisation: str) -> bool:
    """Say whether a family was published in this form only, so that it is nobody's copy."""
    document = json.loads(package_data("born-quantised.json").read_text(encoding="utf-8"))
    return quantisation in document["architectures"].get(architecture, ())
