"""TEN: the complete set of tensors. vLLM reports unknown ones and never a missing one."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.drafter.inventory import Expected, inventory
from spectool.rules.context import Context
from spectool.rules.heads import wide_confidence
from spectool.rules.quantisation import belongs, runs_nowhere, under_both_names
from spectool.rules.registry import Abstain, Hit, rule
from spectool.rules.strangers import advice
from spectool.tensors.quantised import companion, quantised_modules, stem, with_weights

_LOADER = "vLLM 0.33 model_executor/model_loader/default_loader.py: draft classes return None, so nothing is checked"
_SHOWN = 5
_MARKOV, _CONFIDENCE = "markov_head.markov_w1.weight", "confidence_head.proj.weight"


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


@rule(
    "TEN001",
    "tensor-missing",
    summary="A tensor the drafter needs is not in the file.",
    why="vLLM does not notice: the module keeps whatever memory it was given, and drafts with it.",
    fix="Use the complete checkpoint.",
    references=(_LOADER, "github.com/vllm-project/speculators issue 1114"),
)
def missing(context: Context) -> Iterator[Hit]:
    """Holds the file against the inventory of its method."""
    if not context.view.tensors:
        yield Hit("the folder has no weights")
        return
    if not context.sized or runs_nowhere(context) is not None:
        return
    expected = inventory(context.drafter)
    gone = _gone(context, expected)
    if gone:
        yield Hit(f"missing: {_some(gone)}", advice(context, expected, gone, _strange(context, expected)))


def _gone(context: Context, expected: dict[str, Expected]) -> list[str]:
    packed = under_both_names(context, with_weights(context.view))
    gone = [name for name, item in expected.items() if not item.optional and name not in context.shapes]
    gone = [name for name in gone if name not in {"mask_hidden", "d2t"}]  # rules MSK003 and VOC002
    return [name for name in gone if not belongs(name, packed)]


@rule(
    "TEN002",
    "tensor-unknown",
    summary="The file has a tensor that is no part of the drafter.",
    why=(
        "vLLM refuses unknown names, and ignores a bias it has no module for; either way the trained "
        "drafter is not what runs."
    ),
    fix="Find out what the tensor is for; name the right dialect with --from if the folder was taken for another.",
    references=("vLLM 0.33 model_executor/models/utils.py AutoWeightsLoader",),
)
def unknown(context: Context) -> Iterator[Hit]:
    """Holds the inventory against the file."""
    if not context.sized or runs_nowhere(context) is not None:
        return
    expected = inventory(context.drafter)
    extra = _strange(context, expected)
    if extra:
        fix = advice(context, expected, _gone(context, expected), extra)
        yield Hit(f"not part of a {context.reading.dialect.file.title} drafter: {_some(extra)}", fix)


def _strange(context: Context, expected: dict[str, Expected]) -> list[str]:
    training = {"t2d", "d2t"}  # rule VOC002
    refused = ("markov_head.gate_proj.", "markov_head.joint_proj.")  # rule HED001
    extra = [
        item.source
        for name, item in context.reading.placements.placed.items()
        if item.op != "mask-row" and name not in expected | dict.fromkeys(training)
    ]
    extra += context.reading.placements.unplaced
    extra = sorted(name for name in extra if not name.startswith(refused))
    # Scales and packed weights of the drafter's own modules.
    beside = {name: under_both_names(context, {stem(name)}) for name in extra if companion(name)}
    return [
        name for name in extra if name not in beside or not any(belongs(module, beside[name]) for module in expected)
    ]


@rule(
    "TEN003",
    "tensor-shape",
    summary="A tensor has another shape than the drafter's sizes demand.",
    why="It would not load, or load as something else.",
    fix="Check which of config.json and the file is wrong.",
    references=("vLLM 0.33 model_executor/models/{qwen3_dflash,qwen3_dspark,llama_eagle3}.py",),
)
def shape(context: Context) -> Iterator[Hit]:
    """Compares shapes; fc and what follows from it are rule AUX004's business."""
    if not context.sized or runs_nowhere(context) is not None:
        return
    packed = under_both_names(context, quantised_modules(context.view))
    of_aux = {"fc.weight", "mask_hidden", "input_norm.weight"}
    of_markov = {_MARKOV, "markov_head.markov_w2.weight", _CONFIDENCE}
    width = (context.shapes.get("fc.weight") or (0,))[-1]
    aux_wrong = width != len(context.drafter.aux_layers or ()) * context.drafter.dimensions.target_hidden_size
    markov = context.drafter.markov
    rank_wrong = markov is not None and (context.shapes.get(_MARKOV) or (0,))[-1] != markov.rank
    wrong = []
    for name, item in inventory(context.drafter).items():
        found = context.shapes.get(name)
        if found is None or found == item.shape or belongs(name, packed):
            continue
        if (name in of_aux and aux_wrong) or (name in of_markov and rank_wrong):
            continue
        if name == _CONFIDENCE and wide_confidence(context):
            continue  # rule HED005
        wrong.append(f"{name} is {list(found)}, not {list(item.shape)}")
    if wrong:
        yield Hit(_some(wrong))


@rule(
    "TEN004",
    "tensor-twice",
    summary="Two tensors of the file are one and the same parameter.",
    why="vLLM loads both; the later one in the file wins.",
    fix="Remove the one that is not trained.",
    references=("vLLM 0.32 run: with midlayer.* and layers.0.* the later one wins",),
)
def twice(context: Context) -> Iterator[Hit]:
    """Fires when a dialect's names meet."""
    for first, second, target in context.reading.placements.collisions:
        yield Hit(f"{first} and {second} are both {target}")


@rule(
    "TEN005",
    "weight-files-differ",
    scope="engine",
    summary="vLLM loads other weight files of the folder than the ones that belong to it.",
    why="It takes what an index names, whatever lies beside it, and without an index every .safetensors file there is.",
    fix="Leave the drafter's own weight files in the folder, with an index only if there are several.",
    references=(
        "vLLM 0.32 model_executor/model_loader/weight_utils.py filter_duplicate_safetensors_files",
        "vLLM 0.32 run: a leftover index stops it, and so does a stray file with a tensor of no module",
    ),
)
def other_files(context: Context) -> Iterator[Hit | Abstain]:
    """Fires for a leftover index, and for a second safetensors file without one."""
    found = context.loaded_otherwise
    if found is None:
        return
    yield Hit(found.message) if found.sure else Abstain(found.message)
