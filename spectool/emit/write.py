"""From a command to the text of one output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from spectool.emit.launch import Launch, cache_mount, in_container, label, refuse_open_secrets, timing_flags
from spectool.errors import UsageError
from spectool.formats.deployment import Deployment
from spectool.planning.command import Flag, served_name
from spectool.planning.gpus import Gpus
from spectool.serving.address import from_flags


class Kind(StrEnum):
    """What a launch can be written as."""

    sh = "sh"
    docker = "docker"
    compose = "compose"
    k8s = "k8s"
    systemd = "systemd"
    vllm_config = "vllm-config"


CONTAINERS = frozenset({Kind.docker, Kind.compose, Kind.k8s})


def write(
    kind: Kind,
    parts: Sequence[Flag],
    deployment: Deployment,
    *,
    verifier: str,
    drafter: str,
    version: str,
    gpus: Gpus | None,
) -> tuple[str, list[str]]:
    """Return the text, and what its reader should know.

    Args:
        kind: of output.
        parts: the command (`spectool.planning.command.serve_flags`).
        deployment: image, cache, secrets, times.
        verifier: as the command names it: a folder or a Hub id.
        drafter: likewise.
        version: the vLLM release, for the image.
        gpus: that were planned for.

    Raises:
        UsageError: the output cannot hold this launch, or a secret would stand in it.

    """
    argv = [word for part in parts for word in part.argv]
    address = from_flags(argv)
    if address is None or address.uds:
        raise UsageError(
            "what is emitted answers over TCP: --headless and --uds have no place in it",
            hint="--emit writes the commands of further machines itself.",
        )
    launch = Launch(
        name=label(served_name(argv)),
        parts=(*parts, *timing_flags(parts, deployment.stop_seconds)),
        port=address.port,
        tls=address.tls,
        image=deployment.image or f"vllm/vllm-openai:v{version}",
        env=deployment.env,
        secrets=deployment.secrets,
        gpus=gpus.per_node if gpus is not None else None,
        nodes=gpus.nodes if gpus is not None else 1,
        shm_gib=deployment.shm_gib,
        start_seconds=deployment.start_seconds,
        stop_seconds=deployment.stop_seconds,
        mounts=cache_mount(deployment.cache),
    )
    refuse_open_secrets(launch)
    if kind in CONTAINERS:
        launch = in_container(launch, verifier, drafter)
    return _writer(kind)(launch), _notes(kind, launch, verifier, drafter)


def _writer(kind: Kind) -> Callable[[Launch], str]:
    from spectool.emit import containers, kubernetes, shell, systemd, vllm_config  # noqa: PLC0415 - only to emit

    return {
        Kind.sh: shell.script,
        Kind.docker: shell.docker,
        Kind.compose: containers.compose,
        Kind.k8s: kubernetes.kubernetes,
        Kind.systemd: systemd.unit,
        Kind.vllm_config: vllm_config.vllm_config,
    }[kind]


def _notes(kind: Kind, launch: Launch, verifier: str, drafter: str) -> list[str]:
    notes = []
    for what, source in (("verifier", verifier), ("drafter", drafter)):
        if not source.startswith("/") and "@" not in source:
            notes.append(f"the {what} {source} is not pinned: {source}@REVISION serves the same files tomorrow")
        if source.startswith("/") and kind is Kind.k8s:
            notes.append(f"{source} must be on every node that may run this: it is a hostPath")
    if kind in CONTAINERS and not launch.mounts:
        notes.append("without cache: in the deployment file every start downloads the models again")
    if kind is Kind.k8s and launch.gpus is None:
        notes.append("--gpus says how many GPUs a pod asks for; one, since nobody said")
    return notes
