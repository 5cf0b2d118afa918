"""One server on several machines: the command of each, by vLLM's own launcher or by Ray.

vLLM's own (vllm/config/parallel.py and engine/arg_utils.py, 0.32 and 0.33): every machine runs `vllm serve` with the
same flags, its rank and the address of machine 0; all but machine 0 are headless. With Ray the cluster is formed by
commands started first, and `vllm serve` runs on its head only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectool.errors import UsageError
from spectool.planning import flags
from spectool.planning.command import SERVER_MODULE, Flag

NODES = ("--nnodes", "-n")
RANK = ("--node-rank", "-r")
MASTER = "--master-addr"
# Stands for what only the user knows.
SOMEWHERE = "MASTER_ADDR"
_SOURCE = "vllm/config/parallel.py, nnodes, node_rank, master_addr"
_RAY_PORT = 6379  # of `ray start --head`


@dataclass(frozen=True)
class Machine:
    """What one machine runs: commands that come first, as words, and the parts of `vllm serve`, empty where none."""

    title: str
    before: tuple[tuple[str, ...], ...]
    parts: tuple[Flag, ...]


def uses_ray(words: Sequence[str]) -> bool:
    """Say whether the user chose Ray."""
    return flags.value_of(words, "--distributed-executor-backend") == "ray"


def own_rank(words: Sequence[str], nodes: int) -> list[Flag]:
    """Return the flags this machine needs besides the user's, to be one of several.

    Args:
        words: the user's own flags, which say which machine this is.
        nodes: how many machines.

    Raises:
        UsageError: they do not say it, or contradict the number of machines.

    """
    if nodes == 1 or uses_ray(words):
        return []
    given = flags.value_of(words, *NODES)
    if given is not None and given != str(nodes):
        raise UsageError(f"--nnodes {given} contradicts --gpus, which names {nodes} machines")
    rank = flags.value_of(words, *RANK)
    if rank is None or flags.value_of(words, MASTER) is None:
        raise UsageError(
            f"which of the {nodes} machines this is, is not said",
            hint="On each machine: -- --node-rank R --master-addr A, R from 0 up; --dry-run shows every command.",
        )
    if not rank.isdecimal() or int(rank) >= nodes:
        raise UsageError(f"--node-rank {rank}: the machines are 0 to {nodes - 1}")
    added = [] if given is not None else [_nodes(nodes)]
    if int(rank) > 0 and not flags.has(words, "--headless"):
        added.append(_headless())
    return added


def machines(parts: Sequence[Flag], nodes: int) -> list[Machine]:
    """Return what each machine runs, for people to copy.

    Args:
        parts: the command, without anything about machines but what the user gave.
        nodes: how many machines.

    """
    words = [word for part in parts[1:] for word in part.argv]
    address = flags.value_of(words, MASTER) or SOMEWHERE
    if uses_ray(words):
        head = ("ray", "start", "--head", f"--port={_RAY_PORT}")
        join = ("ray", "start", f"--address={address}:{_RAY_PORT}")
        others = [Machine(f"machine {rank}", (join,), ()) for rank in range(1, nodes)]
        # The head serves when all have joined.
        return [Machine("machine 0, first", (head,), ()), *others, Machine("machine 0, then", (), tuple(parts))]
    found = []
    for rank in range(nodes):
        own = [_nodes(nodes), Flag(("--node-rank", str(rank)), "which machine this is", _SOURCE)]
        if not flags.has(words, MASTER):
            own.append(Flag((MASTER, address), "machine 0, as the others reach it", _SOURCE))
        if rank:
            own.append(_headless())
        program = _command(parts[0]) if rank else parts[0]
        found.append(Machine(f"machine {rank}", (), (program, *parts[1:], *own)))
    return found


def _command(program: Flag) -> Flag:
    """Return the program of a headless machine: the server module does not know --headless."""
    if SERVER_MODULE not in program.argv:
        return program
    return Flag(("vllm", "serve", program.argv[-1]), "the vllm command alone starts a headless machine")


def _nodes(nodes: int) -> Flag:
    return Flag(("--nnodes", str(nodes)), "the ranks are spread over so many machines", _SOURCE)


def _headless() -> Flag:
    return Flag(("--headless",), "machine 0 alone answers requests", "vllm/entrypoints/cli/serve.py, run_headless")
