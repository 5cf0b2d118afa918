"""CFG: what the file says it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spectool.formats.lookup import MISSING, lookup
from spectool.rules.context import Context
from spectool.rules.helpers import engine_refuses
from spectool.rules.registry import Abstain, Hit, rule

_ALGOS = "vLLM 0.33 transformers_utils/configs/speculators/{base,algos}.py"


@rule(
    "CFG001",
    "unknown-layout",
    summary="The folder fits no dialect, or more than one.",
    why="Converting or checking a layout by guess is how drafters end up accepting nothing.",
    fix="Name the dialect with --from, or serve the folder natively if the message says vLLM loads it.",
    references=("converters/*.toml",),
)
def unknown_layout(context: Context) -> Iterator[Hit]:
    """Never fires here: detection raises it before a context exists."""
    yield from ()


@rule(
    "CFG002",
    "top-level-model-type",
    scope="engine",
    summary="A Speculators config.json carries a top-level model_type.",
    why="vLLM recognises Speculators files by the absence of model_type; with one, every Speculators key is ignored.",
    fix="Remove the top-level model_type (or write `speculators`).",
    references=("vLLM 0.33 transformers_utils/config.py HFConfigParser",),
)
def top_level_model_type(context: Context) -> Iterator[Hit]:
    """Fires when vLLM would not see a Speculators file."""
    yield from engine_refuses(context, "CFG002")


_MODEL_TYPE = "transformer_layer_config.model_type"


@rule(
    "CFG003",
    "unreadable-config",
    summary="config.json lacks a key or holds a value that the decoder cannot be built from.",
    why="vLLM fills no defaults for Speculators files: a missing size is an error at start, a wrong one at load.",
    fix="Write the key named in the message.",
    references=(_ALGOS,),
)
def unreadable_config(context: Context) -> Iterator[Hit]:
    """Fires for gaps no more specific rule explains, and for what vLLM cannot build."""
    known = ("decoder", "dimensions", "block_size", "speculative_tokens", "draft_vocab_size")
    more = ("target_hidden_size", "verifier_layers", "embedding_scale", "logit_scale", "rms_norm_eps")
    for detail in dict.fromkeys(gap.detail for gap in context.gaps(*known, *more)):
        yield Hit(detail)
    if not context.gaps(*known, *more):
        for hit in engine_refuses(context, "CFG003"):
            yield replace(hit, fix=_decoder(context) if _MODEL_TYPE in hit.message else None)


def _decoder(context: Context) -> str:
    """Name the decoder a P-EAGLE drafter's tensors are of: Qwen3's layers have norms for queries and keys."""
    norms, name = ("", "qwen3") if context.drafter.qk_norm else ("no ", "llama")
    return f"Write `{_MODEL_TYPE}: {name}`: the tensors have {norms}q/k norms."


@rule(
    "CFG004",
    "unknown-architecture",
    scope="engine",
    summary="vLLM has no class for the drafter's architecture or model_type.",
    why="A native folder is loaded by the name in `architectures`; converting it removes the dependence on the name.",
    fix="Convert the folder with `spectool convert`, or correct `architectures`.",
    references=("vLLM 0.33 model_executor/models/registry.py", "vLLM 0.33 transformers_utils/configs/eagle.py"),
)
def unknown_architecture(context: Context) -> Iterator[Hit | Abstain]:
    """Fires when no model class would be found; abstains where spectool does not know the configuration's class."""
    yield from engine_refuses(context, "CFG004")
    if context.engine.unknown:
        yield Abstain(f"{context.engine.unknown}, so how {context.facts.title} runs it")


@rule(
    "CFG006",
    "short-form-incomplete",
    severity="warning",
    scope="engine",
    summary="A Speculators config lacks what `vllm serve DRAFTER` needs to start by itself.",
    why="The short form takes K and the verifier from the file, and refuses it without them; the long form does not.",
    fix="Write the key named in the message, or serve with `spectool serve` (long form).",
    references=(_ALGOS + ": validate_speculators_config",),
)
def short_form_incomplete(context: Context) -> Iterator[Hit]:
    """Looks for the keys vLLM takes from a Speculators file, and for a part that makes it one."""
    if "speculators_model_type" not in context.view.config:
        return
    for key in ("proposal_methods.0.speculative_tokens", "verifier.name_or_path"):
        if lookup(context.view.config, f"speculators_config.{key}") is MISSING:
            yield Hit(f"speculators_config.{key} is missing")


@rule(
    "CFG005",
    "meaning-unsettled",
    summary="The file leaves out a key whose absence readers take for different things.",
    why="What the drafter was trained with is then in no file; an engine's default is right by luck.",
    fix="Write the key, or settle it with --set as the message says.",
    references=("vLLM 0.33 model_executor/models/qwen3_dflash.py: rope base 1000000", "transformers 5.19: 10000"),
)
def meaning_unsettled(context: Context) -> Iterator[Hit | Abstain]:
    """Fires where an engine would go on by itself; abstains where it would ask as well."""
    for question in context.reading.questions:
        values = [str(value) for value in question.plausible]
        among = f": {', '.join(values)}" if values else ""
        text = f"{question.key}: {question.why}{among} (--set {question.key}={values[0] if values else '...'})"
        if question.key in {"rope.theta", "rope.attention_factor", "sample_from_anchor", "slot_layout"}:
            yield Hit(text)
        else:
            yield Abstain(text)


@rule(
    "CFG007",
    "record-does-not-fit",
    severity="note",
    summary="provenance.json does not belong to this folder as it is, so it settles nothing.",
    why="It says what no key of the format can. Config, weights and record must be those that were written together; "
    "with --weights their bytes are compared as well.",
    fix="Convert the source again, or give what was settled with --set.",
    references=("docs/adr/0013-records-prove-replays-convince.md",),
)
def record_does_not_fit(context: Context) -> Iterator[Hit]:
    """Fires where the record would have settled something, or cannot be read."""
    if context.record_fault is not None:
        yield Hit(context.record_fault)


@rule(
    "ENG001",
    "method-not-in-release",
    scope="engine",
    summary="This vLLM release cannot serve the drafter's method or format.",
    why="The method or its Speculators type came with a later release.",
    fix="Use a later vLLM; `spectool validate --engine 'vllm>=0.20'` says from which release on the readings agree.",
    references=("spectool/data/vllm/*.json, features", "spectool/data/vllm-features.toml"),
)
def method_not_in_release(context: Context) -> Iterator[Hit]:
    """Fires when the release has no way to load the folder."""
    yield from engine_refuses(context, "ENG001")


@rule(
    "ENG002",
    "release-without-facts",
    severity="note",
    scope="engine",
    summary="spectool has no facts of this vLLM release; another release's stand in.",
    why="What changed between the two is not known here, so a verdict may be that of the other release.",
    fix="Update spectool, or in a checkout of it read the release: `make facts VLLM=X`.",
    references=("spectool/data/vllm/*.json",),
)
def release_without_facts(context: Context) -> Iterator[Hit]:
    """Fires when the release that was asked about is not the one that is spoken about."""
    choice = context.choice
    if choice is not None and choice.stand_in:
        where = f" in {choice.installed.python}" if choice.installed is not None else ""
        yield Hit(f"vLLM {choice.asked}{where} is judged by the facts of {context.facts.title}, the nearest there are")
