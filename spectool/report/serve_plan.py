"""A launch plan for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectool.drafter.model import TITLES
from spectool.planning.launch import LaunchPlan
from spectool.planning.memory import CASES, GIB, Memory
from spectool.report.speed import speed_lines, speed_record


def launch_text(plan: LaunchPlan, reasons: Sequence[str]) -> str:
    """Return the memory table, what the KV cache holds, the reasons of the flags, and what is to be known."""
    lines = [
        f"{plan.gpus}, {plan.engine}: {TITLES[plan.method]}, K {plan.k}, tensor parallel {plan.tensor_parallel}",
        f"model runner {plan.runner}: {plan.runner_reason}",
        *([f"drafter's attention {': '.join(plan.attention)}"] if plan.attention is not None else []),
    ]
    if plan.memory is not None:
        lines += ["", *_memory_lines(plan.memory)]
    lines += _cache_lines(plan)
    if plan.speed is not None:
        lines += ["", *speed_lines(plan.speed)]
    lines += ["", *reasons]
    if plan.notes or plan.unknown:
        lines.append("")
    lines += [f"note: {note}" for note in plan.notes]
    lines += [f"unknown: {missing}" for missing in plan.unknown]
    return "\n".join(lines) + "\n"


def launch_record(plan: LaunchPlan) -> dict[str, Any]:
    """Return the plan as JSON values; sizes in bytes, on one GPU."""
    return {
        "gpus": {"name": plan.gpus.gpu.name, "count": plan.gpus.count},
        "engine": plan.engine,
        "method": plan.method,
        "speculative_tokens": plan.k,
        "tensor_parallel_size": plan.tensor_parallel,
        "model_runner": {"name": plan.runner, "reason": plan.runner_reason},
        "drafter_attention": (
            None if plan.attention is None else dict(zip(("name", "reason"), plan.attention, strict=True))
        ),
        "max_model_len": plan.length,
        "budget": {
            "max_num_batched_tokens": plan.budget.batched_tokens,
            "max_num_seqs": plan.budget.sequences,
            "lookahead": plan.budget.lookahead,
            "tokens_per_request": plan.budget.per_request,
        },
        "memory": None if plan.memory is None else _memory_record(plan.memory),
        "kv_cache": _cache_record(plan),
        "speed": None if plan.speed is None else speed_record(plan.speed),
        "notes": list(plan.notes),
        "unknown": list(plan.unknown),
    }


def _memory_lines(memory: Memory) -> list[str]:
    over = memory.overhead
    pools = [memory.pool(case) for case in CASES]
    rows = [
        ("vLLM may use", _gib(memory.budget), f"{memory.utilization:g} of {memory.total / GIB:.2f} GiB"),
        *((line.label, _gib(line.nbytes), line.source) for line in memory.lines),
        ("overhead, usually", _gib(over.typical), f"from {_gib(over.low)} to {_gib(over.high)}: {over.source}"),
        ("left for the KV cache", _gib(pools[1]), f"from {_gib(pools[2])} to {_gib(pools[0])}"),
    ]
    width = max(len(label) for label, _, _ in rows)
    head = f"{'on each GPU'.ljust(width)}  {'GiB':>6}"
    return [head, *(f"{label.ljust(width)}  {size:>6}  {where}" for label, size, where in rows)]


def _cache_lines(plan: LaunchPlan) -> list[str]:
    if plan.capacities is None:
        return []
    low, typical, high = (plan.capacities[case] for case in CASES)
    groups = len(typical.groups)
    line = (
        f"KV cache: {typical.tokens:,} tokens (from {high.tokens:,} to {low.tokens:,}), "
        f"{typical.concurrency:.2f} requests of {plan.length:,} tokens "
        f"(from {high.concurrency:.2f} to {low.concurrency:.2f}), {groups} cache group{'' if groups == 1 else 's'}"
    )
    return ["", line]


def _memory_record(memory: Memory) -> dict[str, Any]:
    over = memory.overhead
    return {
        "total": memory.total,
        "utilization": memory.utilization,
        "budget": memory.budget,
        "lines": [{"what": line.label, "bytes": line.nbytes, "source": line.source} for line in memory.lines],
        "overhead": {"low": over.low, "typical": over.typical, "high": over.high, "source": over.source},
    }


def _cache_record(plan: LaunchPlan) -> dict[str, Any] | None:
    """Return tokens and concurrency by overhead: `low` overhead leaves the most."""
    if plan.capacities is None or plan.memory is None:
        return None
    cases: dict[str, Any] = {
        case: {
            "bytes": plan.memory.pool(case),
            "tokens": found.tokens,
            "concurrency": round(found.concurrency, 2),
            "starts": found.fits,
        }
        for case, found in plan.capacities.items()
    }
    typical = plan.capacities["typical"]
    return {"groups": len(typical.groups), "bytes_per_block": typical.block_bytes, "by_overhead": cases}


def _gib(nbytes: int) -> str:
    return f"{nbytes / GIB:.2f}"
