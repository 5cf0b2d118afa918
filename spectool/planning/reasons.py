"""The flags a plan adds to `vllm serve`, each with its reason and where that is known from."""

from __future__ import annotations

from spectool.planning.budget import Release, source, step_tokens
from spectool.planning.command import Flag
from spectool.planning.fit import Sizing, Subject, safe_for, starts
from spectool.planning.own import Own
from spectool.planning.parsers import parsers_for


def planned_flags(sizing: Sizing, facts: Release, ranks: int, length: int | None, limit: int | None) -> list[Flag]:
    """Return the flags of the plan that the user did not give.

    Args:
        sizing: models, GPU and budgets.
        facts: of the release.
        ranks: the tensor-parallel size.
        length: the chosen `max_model_len`; None where it stays open.
        limit: the longest length both models were made for.

    """
    own, budget = sizing.own, sizing.budget
    found = []
    if own.tensor_parallel is None and ranks > 1:
        found.append(_flag("--tensor-parallel-size", ranks, *_parallel_reason(sizing.subject, ranks)))
    if length is not None and own.length is None and "--max-model-len" not in own.names:
        why = "the longest both models were made for"
        if length != limit:
            why = f"the longest that {starts(safe_for(sizing.at(ranks), length))}"
        found.append(_flag("--max-model-len", length, why, "max_position_embeddings of both config.json"))
    if own.sequences is None:
        found.append(
            _flag(
                "--max-num-seqs",
                budget.sequences,
                "vLLM's own default on this GPU, stated since the memory below was counted with it",
                f"vLLM {facts.version}: {facts.sources['defaults']}",
            )
        )
    if own.batched_tokens is None:
        found.append(_flag("--max-num-batched-tokens", budget.batched_tokens, *_budget_reason(sizing, facts)))
    if own.utilization is None and own.kv_bytes is None:
        found.append(
            _flag(
                "--gpu-memory-utilization",
                facts.utilization,
                f"vLLM {facts.version}'s own default, stated since the memory below was counted with it",
                facts.sources["utilization"],
            )
        )
    return found


def _parallel_reason(subject: Subject, ranks: int) -> tuple[str, str]:
    sizes = subject.drafter.dimensions
    heads = f"({subject.model.heads}/{subject.model.kv_heads} and {sizes.num_heads}/{sizes.num_kv_heads})"
    return (
        f"one rank on each GPU; {ranks} divides the heads of both models {heads}",
        "vllm/config/model.py, verify_with_parallel_config; the attention layers of both models",
    )


def _budget_reason(sizing: Sizing, facts: Release) -> tuple[str, str]:
    budget = sizing.budget
    floor = 0 if sizing.own.language_only else sizing.subject.model.batch_floor
    default = facts.batch_defaults(sizing.gpu)[0]
    each = max(budget.per_request, budget.lookahead)
    text = f"{budget.sequences} requests x {each} tokens each while drafting K {sizing.subject.k}"
    if floor > max(default, budget.wanted):
        text = f"one multimodal item of {floor} tokens must fit in a batch"
    elif default >= max(budget.wanted, budget.batched_tokens):
        text = f"vLLM's own default on this GPU; {text} fit in it"
    elif budget.batched_tokens == step_tokens():
        return f"vLLM advises it with a drafter and would take {default} by itself; {text} fit in it", source("step")
    return text, f"vLLM {facts.version}: {facts.sources['slots']}; vllm/config/vllm.py, num_lookahead_tokens"


def parser_flags(subject: Subject, own: Own) -> tuple[list[Flag], list[str]]:
    """Return the parsers' flags, and notes on those that only the user can want."""
    found = parsers_for((subject.model.name, *subject.other_names))
    flags: list[Flag] = []
    notes: list[str] = []
    if found is None:
        return flags, notes
    if found.reasoning and "--reasoning-parser" not in own.names:
        why = f"{found.verifier} thinks before it answers; its thoughts come apart from the answer"
        flags.append(_flag("--reasoning-parser", found.reasoning, why, found.source))
    if found.tools and not {"--tool-call-parser", "--enable-auto-tool-choice"} & own.names:
        notes.append(f"for tool calls: -- --enable-auto-tool-choice --tool-call-parser {found.tools} ({found.source})")
    return flags, notes


def _flag(name: str, value: object, reason: str, where: str) -> Flag:
    return Flag((name, str(value)), reason, where)
