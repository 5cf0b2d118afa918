"""PAR: copies of the server (data parallelism), and how ranks lie on machines."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.planning.parsing_values import whole
from spectool.rules.context import Context
from spectool.rules.helpers import release_of
from spectool.rules.registry import Hit, rule

_ARGUMENTS = "vLLM 0.32 engine/arg_utils.py"
_DENSE_ALONE = (0, 24)
_EVEN_MACHINES = (0, 28)


@rule(
    "PAR007",
    "copies-and-machines",
    scope="launch",
    summary="vLLM refuses how the launch lays out copies and machines.",
    why="More local copies than copies, a load balancer without its figure, or machines that do not divide the ranks. "
    "An external load balancer goes with a verifier of experts only.",
    fix="Correct the flag named in the message.",
    references=(
        "vLLM 0.20 to 0.33 config/parallel.py: data_parallel_size_local must be <= data_parallel_size",
        f"{_ARGUMENTS}: Non-MoE models do not support external data parallel mode (from 0.24 on)",
        f"{_ARGUMENTS}: must evenly divide the total world size (from 0.28 on)",
    ),
)
def layout(context: Context) -> Iterator[Hit]:
    """Checks what vLLM checks of these flags before it counts GPUs."""
    launch, release = context.launched, release_of(context.facts.version)
    copies, local = launch.own.data_parallel or 1, _number(context, "--data-parallel-size-local")
    if local is not None and local > copies:
        yield Hit(f"--data-parallel-size-local {local} is more than --data-parallel-size {copies}")
    outside = [flag for flag in ("--data-parallel-external-lb", "--data-parallel-rank") if launch.has(flag)]
    if outside and copies > 1 and release >= _DENSE_ALONE and launch.model is not None and not launch.model.experts:
        what = f"{outside[0]}: {launch.model.name} has no experts"
        yield Hit(what, "Start servers of their own, without --data-parallel flags.")
    if outside and copies == 1:
        yield Hit(f"{outside[0]} with one copy of the server")
    if release < _EVEN_MACHINES:
        return
    machines = _number(context, "--nnodes") or 1
    if launch.has("--data-parallel-hybrid-lb") and local is None and machines == 1:
        yield Hit("--data-parallel-hybrid-lb without --data-parallel-size-local")
    ranks = launch.ranks * launch.stages * copies * (_number(context, "--prefill-context-parallel-size") or 1)
    if machines > 1 and ranks % machines:
        yield Hit(f"--nnodes {machines} does not divide the {ranks} rank{'' if ranks == 1 else 's'} of the launch")


def _number(context: Context, flag: str) -> int | None:
    return whole(context.launched.value(flag) or "")
