"""A shell script, and the `docker run` command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from spectool.emit.launch import READY_TIMEOUT, Launch
from spectool.errors import UsageError

# curl is not in every image; Python is.
HEALTH = "import ssl, urllib.request as r; r.urlopen('{scheme}://127.0.0.1:{port}/health', timeout=5{tls})"


def script(launch: Launch) -> str:
    """Return a POSIX shell script that becomes the engine; its own arguments are further flags.

    With several machines it is run on each, with NODE_RANK (0 is the head) and MASTER_ADDR set.
    """
    lines = ["#!/bin/sh", *_comments(launch), "set -eu"]
    lines += [_needed(_variable(source, name), f"{name} holds a secret") for name, source in launch.secrets.items()]
    for name, source in launch.secrets.items():
        lines.append(f'export {name}="${_variable(source, name)}"')
    env = launch.own_environment()
    lines += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    if launch.nodes > 1:
        lines += [
            _needed("NODE_RANK", f"the number of this machine, 0 to {launch.nodes - 1}"),
            _needed("MASTER_ADDR", "the address of machine 0, as the others reach it"),
            # Only the head answers requests.
            '[ "$NODE_RANK" -eq 0 ] || set -- --headless "$@"',
            f'set -- --nnodes {launch.nodes} --node-rank "$NODE_RANK" --master-addr "$MASTER_ADDR" "$@"',
        ]
    lines.append("exec " + _broken([part.argv for part in launch.parts]) + ' \\\n  "$@"')
    return "\n".join(lines) + "\n"


def docker(launch: Launch) -> str:
    """Return a `docker run` command; secrets come from the variables of the shell it is run in.

    Raises:
        UsageError: several machines, or a volume claim.

    """
    one_machine(launch, "docker")
    name, *rest = [part.argv for part in launch.parts]
    health = HEALTH.format(
        scheme=launch.scheme, port=launch.port, tls=", context=ssl._create_unverified_context()" if launch.tls else ""
    )
    options: list[Sequence[str]] = [
        ("docker", "run", "--detach"),
        ("--name", launch.name),
        ("--restart", "unless-stopped"),
        *_device_options(launch),
        ("--shm-size", f"{launch.shm_gib}g"),
        ("--publish", f"{launch.port}:{launch.port}"),
        ("--stop-signal", "SIGTERM"),
        ("--stop-timeout", str(launch.stop_seconds)),
        ("--health-cmd", shlex.join(["python3", "-c", health])),
        ("--health-interval", "15s"),
        ("--health-timeout", "10s"),
        ("--health-start-period", f"{launch.start_seconds}s"),
        ("--env", f"{READY_TIMEOUT}={launch.start_seconds}"),
        *(("--env", f"{key}={value}") for key, value in launch.env.items()),
    ]
    lines = ["#!/bin/sh", *_comments(launch), "set -eu"]
    for key, source in launch.secrets.items():
        variable = _variable(source, key)
        lines.append(_needed(variable, f"{key} holds a secret"))
        if variable != key:
            lines.append(f'{key}="${variable}"')
        lines.append(f"export {key}")
        options.append(("--env", key))
    options += [
        ("--volume", f"{mount.source}:{mount.target}" + (":ro" if mount.read_only else "")) for mount in launch.mounts
    ]
    options += [("--entrypoint", name[0]), (launch.image, *name[1:])]
    lines.append("exec " + _broken([*options, *rest]))
    return "\n".join(lines) + "\n"


def one_machine(launch: Launch, kind: str) -> None:
    """Refuse what a container on one machine cannot do.

    Raises:
        UsageError: several machines, or a volume claim.

    """
    if launch.nodes > 1:
        raise UsageError(
            f"--emit {kind} is for one machine, and the GPUs are spread over {launch.nodes}",
            hint="--emit sh writes a script to run on each; --emit k8s a LeaderWorkerSet.",
        )
    if any(mount.claim for mount in launch.mounts):
        raise UsageError(f"cache names a Kubernetes volume claim, and --emit {kind} needs a folder of the machine")


def _device_options(launch: Launch) -> list[Sequence[str]]:
    if launch.amd:
        return [("--device", "/dev/kfd"), ("--device", "/dev/dri"), ("--group-add", "video")]
    # docker reads the value as CSV: quotes keep a list of devices together; a count needs none.
    return [("--gpus", "all" if launch.gpus is None else str(launch.gpus))]


def _variable(source: str, name: str) -> str:
    """Return the shell variable that holds a secret; a Kubernetes secret stands for one of the same name."""
    return source.removeprefix("env:") if source.startswith("env:") else name


def _needed(variable: str, what: str) -> str:
    return f': "${{{variable}:?{what}}}"'


def _comments(launch: Launch) -> list[str]:
    return [f"# {line}" for line in launch.comments()]


def _broken(groups: Sequence[Sequence[str]]) -> str:
    return " \\\n  ".join(shlex.join(group) for group in groups)
