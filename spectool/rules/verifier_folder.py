"""VER: the verifier's folder itself: its config.json and its weights, as vLLM's classes take them."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.engine.plain_verifiers import plain_verifier, unread
from spectool.engine.reading.strict import class_faults
from spectool.rules.context import Context
from spectool.rules.quantisation import key_missing
from spectool.rules.registry import Hit, rule

_FLOATS = {"BF16", "F16", "F32", "F64"}
_SHOWN = 3
_ONE_KIND = {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}


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
