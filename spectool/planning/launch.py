"""The first planner: GPUs in, the flags of `vllm serve` out, each with its reason and source, and a memory table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spectool.drafter.model import TITLES
from spectool.errors import RefusedError, UsageError
from spectool.planning.backends import drafter_backend
from spectool.planning.budget import Budget, Release, budget_faults, budget_notes, plan_budget
from spectool.planning.command import Flag
from spectool.planning.experts import expert_notes, refuse_experts
from spectool.planning.fit import Fit, Sizing, Subject, remedies, safe_for, shortage, spread, starts
from spectool.planning.gpus import Gpus
from spectool.planning.kv_capacity import Capacity
from spectool.planning.kv_groups import UngroupableError, group_layers
from spectool.planning.memory import CASES, GIB, Case, Memory
from spectool.planning.models import UnknownError
from spectool.planning.own import Own
from spectool.planning.parallel import candidates, obstacles
from spectool.planning.reasons import parser_flags, planned_flags
from spectool.planning.steps import advised_steps

if TYPE_CHECKING:
    from spectool.speed.plan import SpeedPlan  # which itself needs the planner's subject

# vLLM's newest model runner; P-EAGLE is what it does not run yet (config/vllm.py, use_v2_model_runner, 0.32 and 0.33).
_RUNNERS = {
    "peagle": ("V1", "vLLM falls back to it by itself; VLLM_USE_V2_MODEL_RUNNER=1 would be refused"),
    "dflash": ("V2", "vLLM's default; VLLM_USE_V2_MODEL_RUNNER=0 would choose V1"),
    "dspark": ("V2", "DSpark runs on no other; VLLM_USE_V2_MODEL_RUNNER=0 would be refused"),
}
# Compute capabilities on which FlashAttention 4 has a kernel of its own for heads of 256 (fa_utils.py, 0.33).
_BLOCK_ASSUMED = (10, 11)
# Tokens to reckon a shortage with where no length fits at all.
_SHORT = 4096


@dataclass(frozen=True)
class LaunchPlan:
    """A launch on given GPUs.

    `flags` are what spectool adds to the command; `attention` is the drafter's backend and why. `capacities` say what
    the KV cache holds with the low, typical and high overhead; None where memory or caches are unknown, and `unknown`
    then says what is missing. `speed` is added by who knows the drafter's name (`spectool.launch_plan`).
    """

    gpus: Gpus
    engine: str
    method: str
    k: int
    tensor_parallel: int
    runner: str
    runner_reason: str
    attention: tuple[str, str] | None
    length: int | None
    budget: Budget
    flags: tuple[Flag, ...]
    memory: Memory | None
    capacities: Mapping[Case, Capacity] | None
    notes: tuple[str, ...]
    unknown: tuple[str, ...]
    speed: SpeedPlan | None = None


def plan_launch(subject: Subject, gpus: Gpus, own: Own, facts: Release) -> LaunchPlan:
    """Plan a launch; the user's own flags stay as they are and are checked.

    Raises:
        RefusedError: it cannot start: it does not fit, or vLLM refuses the combination.
        UsageError: the user's flags contradict the GPUs.

    """
    method = subject.drafter.method
    _refuse_combinations(method, own)
    refuse_experts(subject.model, own)
    ranks, parallel_notes = _tensor_parallel(subject, gpus, own)
    budget = plan_budget(
        facts,
        gpus.gpu,
        method,
        subject.k,
        subject.drafter.slots,
        floor=0 if own.language_only else subject.model.batch_floor,
        sequences=own.sequences,
        batched_tokens=own.batched_tokens,
    )
    faults = budget_faults(budget, facts, method)
    if faults:
        raise RefusedError("; ".join(faults), hint=f"--max-num-batched-tokens {budget.wanted} has room for all.")
    utilization = own.utilization or facts.utilization
    sizing = Sizing(subject, gpus.gpu, budget, own, utilization)
    _refuse_split_drafter(sizing, ranks)
    limit = _limit(subject, own)
    sizing, step_notes = advised_steps(sizing, ranks, limit)
    budget = sizing.budget
    notes, unknown = [*parallel_notes, *budget_notes(budget, facts, method), *step_notes], []
    memory, capacities, length = None, None, own.length or limit
    try:
        fit = _whole(sizing, ranks)
    except (UnknownError, UngroupableError) as error:
        unknown.append(f"memory and KV cache: {error}")
        memory = _memory_alone(sizing, ranks) if (own.pipeline_parallel or 1) == 1 else None
    else:
        memory = fit.memory
        length, more = _length(sizing, fit, ranks, limit)
        notes += more
        capacities = {case: fit.capacity(case, length) for case in CASES}
        if gpus.gpu.compute_capability[0] in _BLOCK_ASSUMED and subject.model.head_dim == 256:
            unknown.append("the KV block size: FlashAttention 4 takes 128 tokens for heads of 256; 16 was counted with")
    try:
        attention = drafter_backend(subject.drafter, gpus.gpu, facts.version, own)
    except UnknownError as error:
        attention = None
        unknown.append(str(error))
    parsers, parser_notes = parser_flags(subject, own)
    runner, runner_reason = _RUNNERS[method]
    return LaunchPlan(
        gpus=gpus,
        engine=f"vllm=={facts.version}",
        method=method,
        k=subject.k,
        tensor_parallel=ranks,
        runner=runner,
        runner_reason=runner_reason,
        attention=attention,
        length=length,
        budget=budget,
        flags=(*planned_flags(sizing, facts, ranks, length, limit), *parsers),
        memory=memory,
        capacities=capacities,
        notes=(*notes, *parser_notes, *expert_notes(sizing, ranks)),
        unknown=tuple(unknown),
    )


def _whole(sizing: Sizing, ranks: int) -> Fit:
    """Return the fit of models that every rank has all layers of.

    Raises:
        UnknownError: something of the memory is not known.
        UngroupableError: vLLM itself cannot group the caches.

    """
    if (sizing.own.pipeline_parallel or 1) > 1:
        raise UnknownError("which layers and caches each pipeline stage holds is not counted")
    return sizing.at(ranks)


def _refuse_combinations(method: str, own: Own) -> None:
    title = TITLES[method]
    if (own.pipeline_parallel or 1) > 1 and method == "peagle":
        raise RefusedError(
            "P-EAGLE does not run with --pipeline-parallel-size: its aux hidden states stay on the first stage",
            hint="Use --tensor-parallel-size.",
        )
    if method == "dspark" and own.micro_batches:
        raise RefusedError(
            f"{title} does not run with --enable-dbo: micro-batches need the V1 model runner, which has no {title}",
            hint="Leave --enable-dbo out.",
        )


def _tensor_parallel(subject: Subject, gpus: Gpus, own: Own) -> tuple[int, list[str]]:
    """Return the tensor-parallel size: the user's, or the largest that divides both models and the GPUs allow."""
    copies = (own.data_parallel or 1) * (own.pipeline_parallel or 1)
    share = gpus.count // copies
    if share == 0:
        what = f"--data-parallel-size {own.data_parallel or 1} x --pipeline-parallel-size {own.pipeline_parallel or 1}"
        raise UsageError(f"{what} needs more than {gpus}")
    try:
        experts = spread(subject.model, own)
        fitting = candidates(share, subject.model, subject.drafter, experts)
        # Every machine holds the same number of ranks (vllm/config/parallel.py).
        fitting = [ranks for ranks in fitting if ranks * copies % gpus.nodes == 0]
        if not fitting:
            raise RefusedError(
                f"no tensor-parallel size divides both models and spreads evenly over {gpus.nodes} machines",
                hint="Plan for one machine, or add -- --pipeline-parallel-size.",
            )
        if own.tensor_parallel is None:
            ranks = fitting[-1]
        else:
            ranks = own.tensor_parallel
            if ranks > share:
                raise UsageError(f"--tensor-parallel-size {ranks} needs more than {gpus}")
            wrong = obstacles(ranks, subject.model, subject.drafter, experts)
            if wrong:
                raise RefusedError(
                    f"--tensor-parallel-size {ranks}: {'; '.join(wrong)}",
                    hint=f"These divide both models: {', '.join(map(str, fitting))}.",
                )
    except UnknownError as error:
        raise RefusedError(f"which tensor-parallel sizes divide the verifier is unknown: {error}") from None
    idle = gpus.count - ranks * copies
    notes = [f"{idle} of {gpus} stay idle: no larger tensor-parallel size divides both models"] if idle else []
    if ranks > gpus.per_node:
        notes.append(
            f"{ranks} tensor-parallel ranks talk over the network between machines after every layer; one server on "
            "each machine, or --pipeline-parallel-size where the verifier relays hidden states, needs less of it"
        )
    return ranks, notes


def _limit(subject: Subject, own: Own) -> int | None:
    """Return the longest length both models were made for.

    Raises:
        RefusedError: the user asks for more than the drafter's, which vLLM refuses (config/speculative.py).

    """
    drafter_limit = subject.drafter.max_position_embeddings
    if own.length is not None and drafter_limit is not None and own.length > drafter_limit:
        raise RefusedError(
            f"--max-model-len {own.length} is more than the drafter's max_position_embeddings {drafter_limit}",
            hint=f"At most --max-model-len {drafter_limit}.",
        )
    longest = subject.model.longest
    if own.length is not None and longest is not None and own.length > longest and "--hf-overrides" not in own.names:
        raise RefusedError(
            f"--max-model-len {own.length} is more than the verifier's max_position_embeddings {longest}",
            hint=f"At most --max-model-len {longest}, or stretch its rope with --hf-overrides.",
        )
    limits = [limit for limit in (longest, drafter_limit) if limit is not None]
    return min(limits) if limits else None


def _length(sizing: Sizing, fit: Fit, ranks: int, limit: int | None) -> tuple[int, list[str]]:
    """Return `max_model_len` and what there is to say about it.

    Raises:
        RefusedError: it does not fit even with the lowest overhead.

    """
    wanted = sizing.own.length or limit
    if wanted is None:
        raise RefusedError("neither model states max_position_embeddings", hint="Say --max-model-len N after --.")
    what = f"{sizing.subject.model.name} with {sizing.subject.drafter_name} does not fit on {ranks} x {sizing.gpu.name}"
    if sizing.own.length is not None:
        if not fit.fits("low", wanted):
            helps = remedies(sizing, ranks, wanted)
            raise RefusedError(f"{what}: {shortage(fit, wanted)}", hint=f"{helps} would help." if helps else None)
        return wanted, _tightness(sizing, fit, ranks, wanted)
    length, case = fit.chosen(wanted)
    if not length:
        short = min(wanted, _SHORT)
        helps = remedies(sizing, ranks, short)
        raise RefusedError(f"{what}: {shortage(fit, short)}", hint=f"{helps} would help." if helps else None)
    notes = []
    if length < wanted:
        notes.append(f"max_model_len is {length}, the longest that {starts(case)}; both models could do {wanted}")
    return length, [*notes, *_tightness(sizing, fit, ranks, length)]


def _tightness(sizing: Sizing, fit: Fit, ranks: int, length: int) -> list[str]:
    case = safe_for(fit, length)
    if case == "high":
        return []
    if case == "typical":
        return ["it fits with the usual overhead, not with the highest: it may not start"]
    missing = (fit.capacity("typical", length).needed - fit.memory.pool("typical")) / GIB
    said = f"with the usual overhead {missing:.1f} GiB are missing on each GPU and it does not start"
    helps = remedies(sizing, ranks, length)
    return [f"{said}; with the lowest seen it does{f': {helps} would help' if helps else ''}"]


def _refuse_split_drafter(sizing: Sizing, ranks: int) -> None:
    """Refuse a P-EAGLE whose layers vLLM puts into several cache groups (v1/spec_decode/llm_base_proposer.py)."""
    drafter = sizing.subject.drafter
    if drafter.method != "peagle":
        return
    try:
        layers = sizing.layers(ranks)
        groups = group_layers(layers)
    except (UnknownError, UngroupableError):
        return  # said where the memory is
    first = len(layers) - len(drafter.attention)
    homes = [group for group in groups if any(member >= first for member in group.members)]
    if len(homes) > 1:
        raise RefusedError(
            f"vLLM would put the drafter's layers into {len(homes)} KV cache groups beside this verifier's, and "
            "P-EAGLE wants them in one (AssertionError: all drafting layers should belong to the same kv cache group)"
        )


def _memory_alone(sizing: Sizing, ranks: int) -> Memory | None:
    try:
        return sizing.memory(ranks)
    except UnknownError:
        return None
