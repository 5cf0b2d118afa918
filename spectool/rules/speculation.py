"""SPC: the keys of --speculative-config, as a launch sets them."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from spectool.drafter.model import TITLES
from spectool.formats.lookup import is_int
from spectool.rules.context import Context
from spectool.rules.registry import Abstain, Hit, rule

_CONFIG = "vLLM 0.33 config/speculative.py"
# How vLLM names the three methods, and the words by which it guesses from a path (__post_init__), in its order.
METHOD = {"peagle": "eagle3", "dflash": "dflash", "dspark": "dspark"}
_GUESSES = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"), ("dspark", "dspark"))
# Keys whose values have a rule of their own.
_ELSEWHERE = {"num_speculative_tokens", "method", "draft_tensor_parallel_size", "dspark_draft_topk"}
_ELSEWHERE |= {"num_speculative_tokens_per_batch_size", "synthetic_acceptance_rates", "synthetic_acceptance_length"}


def served_tokens(context: Context) -> int | None:
    """Return K as the launch serves it: its own, else the drafter's."""
    return context.launched.tokens or context.tokens


@rule(
    "SPC001",
    "speculative-key",
    scope="launch",
    summary="--speculative-config has a key that this release does not know.",
    why="vLLM forbids extra keys: it fails while it reads its arguments.",
    fix="Correct the spelling, or leave the key out.",
    references=(_CONFIG, "spectool/data/vllm/*.json, speculative_config_keys"),
)
def key(context: Context) -> Iterator[Hit]:
    """Looks every key up; `tensor_parallel_size` is a field that only serves to be refused."""
    known = context.facts.speculative_config_keys - {"tensor_parallel_size"}
    for name in context.launched.speculative:
        if name in known or (name == "tensor_parallel_size" and context.launched.speculative[name] is None):
            continue
        near = "draft_tensor_parallel_size" if name == "tensor_parallel_size" else None
        near = near or next(iter(get_close_matches(name, known, 1)), None)
        yield Hit(f"{context.facts.title} has no key {name!r}", f"Did you mean {near}?" if near else None)


@rule(
    "SPC002",
    "speculative-method",
    scope="launch",
    summary="The launch serves the drafter by another method than its own.",
    why=(
        "vLLM has no method `peagle` (it is eagle3 with parallel_drafting); without a method it guesses from words in "
        "the drafter's path, and a wrong guess runs as draft_model: acceptance length 1, no error."
    ),
    fix="Name the method: eagle3 with parallel_drafting true, dflash, or dspark; `spectool serve` does.",
    references=(_CONFIG, "vLLM 0.32 run: a DFlash folder without `method` drafts at acceptance length 1.000"),
)
def method(context: Context) -> Iterator[Hit]:
    """Compares the method, stated or guessed, with the drafter's, and parallel_drafting with P-EAGLE's need."""
    launch, wanted = context.launched, METHOD[context.method]
    given = launch.speculative.get("method")
    if given is None and launch.names_drafter:
        path = str(launch.speculative["model"]).lower()
        guess = next((name for word, name in _GUESSES if word in path), "draft_model")
        if guess != wanted:
            yield Hit(f"no method is given, and vLLM takes this path for {guess}: the drafter is {wanted}")
            return
    elif given is not None and given != wanted:
        yield Hit(f"method is {given!r}, and a {TITLES[context.method]} drafter runs as {wanted!r}")
        return
    parallel = launch.speculative.get("parallel_drafting")
    if context.method == "peagle" and (parallel is False or (parallel is None and launch.names_drafter)):
        yield Hit("parallel_drafting is not true, so vLLM drafts token by token with a drafter trained for one pass")


@rule(
    "SPC003",
    "speculative-tokens",
    scope="launch",
    summary="The launch names no K, or one that is no count.",
    why="In the long form vLLM takes K from the flags alone; only DSpark has a default, its block_size.",
    fix="Set num_speculative_tokens.",
    references=(_CONFIG,),
)
def tokens(context: Context) -> Iterator[Hit]:
    """Looks at num_speculative_tokens."""
    launch = context.launched
    given = launch.speculative.get("num_speculative_tokens")
    if given is not None and (not is_int(given) or given < 1):
        yield Hit(f"num_speculative_tokens is {given!r}")
    elif given is None and launch.names_drafter and context.method != "dspark":
        yield Hit(f"num_speculative_tokens is missing, and vLLM has no default for {TITLES[context.method]}")


@rule(
    "SPC004",
    "speculative-length",
    scope="launch",
    summary="max_model_len of the speculative configuration is beyond one of the two models.",
    why="vLLM refuses it.",
    fix="Leave it out: vLLM takes the shorter of both.",
    references=(f"{_CONFIG} _maybe_override_draft_max_model_len",),
)
def length(context: Context) -> Iterator[Hit | Abstain]:
    """Compares it with the drafter's positions and the served length."""
    given = context.launched.speculative.get("max_model_len")
    if not is_int(given):
        return
    ours = context.drafter.max_position_embeddings
    served = context.launched.own.length or (context.verifier.max_position_embeddings if context.verifier else None)
    if is_int(ours) and given > ours:
        yield Hit(f"max_model_len {given} is beyond the drafter's {ours} positions")
    elif served is not None and given > served:
        yield Hit(f"max_model_len {given} is beyond the served length {served}")
    elif served is None:
        yield Abstain("the served length (--verifier FOLDER, or --max-model-len)")


@rule(
    "SPC005",
    "rejection-sampling",
    scope="launch",
    summary="The figures of a rejection sampling method do not fit it, or K.",
    why="vLLM checks them against K at start.",
    fix="Correct the key named in the message.",
    references=(f"{_CONFIG} _resolve_synthetic_acceptance_rates, _verify_args",),
)
def rejection(context: Context) -> Iterator[Hit | Abstain]:
    """Synthetic acceptance wants exactly one of two figures, FLy a window below K."""
    keys, k = context.launched.speculative, served_tokens(context)
    kind = keys.get("rejection_sample_method", "standard")
    rates, mean = keys.get("synthetic_acceptance_rates"), keys.get("synthetic_acceptance_length")
    if kind != "synthetic":
        if rates is not None or mean is not None:
            yield Hit(f"synthetic acceptance is given with rejection_sample_method {kind!r}")
    elif (rates is None) == (mean is None):
        yield Hit("synthetic rejection wants one of synthetic_acceptance_rates and synthetic_acceptance_length")
    elif k is None:
        yield Abstain("K (num_speculative_tokens)")
    elif rates is not None:
        yield from _rates(rates, k)
    elif not isinstance(mean, int | float) or not 1 <= mean <= k + 1:
        yield Hit(f"synthetic_acceptance_length is {mean!r}, and lies between 1 and K + 1 = {k + 1}")
    window = keys.get("fly_window_size")
    if kind == "fly" and k is not None:
        if k < 2:
            yield Hit(f"FLy needs at least 2 tokens, K is {k}")
        elif is_int(window) and window >= k:
            yield Hit(f"fly_window_size {window} is not below K = {k}")


def _rates(rates: object, k: int) -> Iterator[Hit]:
    if not isinstance(rates, list) or not all(isinstance(rate, int | float) for rate in rates):
        yield Hit("synthetic_acceptance_rates is no list of numbers")
    elif len(rates) != k:
        yield Hit(f"synthetic_acceptance_rates has {len(rates)} entries, K is {k}")
    elif not all(0 <= rate <= 1 for rate in rates):
        yield Hit("synthetic_acceptance_rates has an entry outside 0 to 1")
    elif sorted(rates, reverse=True) != rates:
        yield Hit("synthetic_acceptance_rates rises")


@rule(
    "SPC006",
    "option-of-another-method",
    scope="launch",
    summary="A key of the speculative configuration belongs to another method than the drafter's.",
    why="vLLM refuses it at start.",
    fix="Leave the key out.",
    references=(_CONFIG,),
)
def foreign(context: Context) -> Iterator[Hit]:
    """Looks at the keys vLLM ties to a method."""
    keys, name = context.launched.speculative, METHOD[context.method]
    topk = keys.get("dspark_draft_topk")
    if topk is not None and context.method != "dspark":
        yield Hit(f"dspark_draft_topk with method {name}")
    elif topk is not None:
        most = context.drafter.dimensions.draft_vocab_size
        if not is_int(topk) or not 1 <= topk <= most:
            yield Hit(f"dspark_draft_topk is {topk!r}, and lies between 1 and the draft vocabulary of {most}")
    if keys.get("xpress_topc") is not None:
        yield Hit("xpress_topc is for XPress drafters only")
    if keys.get("index_share_for_mtp_iteration") is not None:
        yield Hit(f"index_share_for_mtp_iteration with method {name}")
    if keys.get("use_heterogeneous_vocab") is True:
        yield Hit(f"use_heterogeneous_vocab with method {name}")
    if keys.get("draft_lm_head_quantization") is not None and context.method != "peagle":
        yield Hit(f"draft_lm_head_quantization with method {name}")


@rule(
    "SPC007",
    "speculative-key-twice",
    scope="launch",
    summary="Two flags set the same key of the speculative configuration.",
    why="vLLM refuses --spec-method, --spec-model and --spec-tokens beside a --speculative-config that has the key.",
    fix="Keep one of the two.",
    references=("vLLM 0.33 engine/arg_utils.py create_speculative_config",),
)
def twice(context: Context) -> Iterator[Hit]:
    """Fires for keys in both."""
    for name in context.launched.doubled:
        yield Hit(f"{name} is set by --speculative-config and by a --spec- flag")


@rule(
    "SPC008",
    "speculative-value",
    scope="launch",
    summary="A key of the speculative configuration has a value that this release does not take.",
    why="vLLM's SpeculativeConfig refuses it: another type, none of the choices, out of range.",
    fix="Correct the value, or leave the key out.",
    references=(_CONFIG, "spectool/data/flags/*.json, classes.SpeculativeConfig, read from vLLM's sources"),
)
def value(context: Context) -> Iterator[Hit]:
    """Looks at values by what the release's class holds; what other rules say of a key is not said again."""
    from spectool.planning.json_values import held_faults  # noqa: PLC0415 - only with a launch
    from spectool.planning.parser import table  # noqa: PLC0415 - only with a launch

    known = table(context.facts.version)
    shapes = known.classes["SpeculativeConfig"]
    for name, given in context.launched.speculative.items():
        if name in shapes and (name not in _ELSEWHERE or given is None):
            for fault in held_faults(name, given, shapes[name], known.classes):
                yield Hit(fault)
    keys, title = context.launched.speculative, context.facts.title
    if "model" in keys and not (isinstance(keys["model"], str) and keys["model"]):
        yield Hit(f"model is {keys['model']!r}: the drafter's path or name is needed")
    method = keys.get("quantization")
    if method is not None and known.quantisation and method not in known.quantisation:
        yield Hit(f"quantization is {method!r}, and {title} has no such method")
    backend = keys.get("attention_backend")
    if isinstance(backend, str) and backend.lower() != "auto" and backend.upper() not in known.attention_backends:
        yield Hit(f"attention_backend is {backend!r}, and {title} has none of that name")
    elif backend is not None and not isinstance(backend, str):
        yield Hit(f"attention_backend is {backend!r}: text is needed")
