"""A launch as every output needs it: the command, what it may use, and how long it may take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from spectool.errors import UsageError
from spectool.planning import flags
from spectool.planning.command import SPECULATIVE, Flag
from spectool.planning.redact import is_secret_name, redact_argv

# Seconds of the stop that are the system's own; the rest is for requests in flight.
STOP_MARGIN = 10
VERIFIER_MOUNT, DRAFTER_MOUNT = "/models/verifier", "/models/drafter"
# Where vLLM's image keeps what it downloads (HF_HOME's default for root).
CACHE_MOUNT = "/root/.cache/huggingface"
# How vLLM is told which machine of several this is: the values differ per machine, so each output has its own words.
READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"


@dataclass(frozen=True)
class Mount:
    """A folder of the machine, as a container sees it. `claim` is the name of a Kubernetes volume claim instead."""

    source: str
    target: str
    read_only: bool = True
    claim: bool = False


@dataclass(frozen=True)
class Launch:
    """Everything an output needs.

    Attributes:
        name: a DNS label: of the service, the container, the unit.
        parts: the command, the program first, each with its reason.
        port: of the HTTP server.
        tls: whether it speaks https.
        env: variables that are no secrets.
        secrets: variables that are; values as in a deployment file.
        image: of the container.
        gpus: in each machine; None where nobody said, which means all.
        nodes: machines.
        amd: whether the GPUs are AMD's.
        shm_gib: shared memory of a container in GiB.
        start_seconds: a start may take this long.
        stop_seconds: from SIGTERM to SIGKILL.
        mounts: folders a container needs.

    """

    name: str
    parts: tuple[Flag, ...]
    port: int
    image: str
    tls: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    gpus: int | None = None
    nodes: int = 1
    amd: bool = False
    shm_gib: int = 16
    start_seconds: int = 1800
    stop_seconds: int = 60
    mounts: tuple[Mount, ...] = ()

    @property
    def argv(self) -> list[str]:
        """The command as one list of words."""
        return [word for part in self.parts for word in part.argv]

    @property
    def scheme(self) -> str:
        """Of the HTTP server."""
        return "https" if self.tls else "http"

    def own_environment(self) -> dict[str, str]:
        """Return the variables of an engine outside a container: the cache is a folder there, not a mount.

        Raises:
            UsageError: the cache is a Kubernetes volume claim.

        """
        found = {READY_TIMEOUT: str(self.start_seconds)}
        for mount in self.mounts:
            if mount.claim:
                raise UsageError("cache names a Kubernetes volume claim, and here it must be a folder of the machine")
            if mount.target == CACHE_MOUNT:
                found["HF_HOME"] = mount.source
        return found | dict(self.env)

    def comments(self) -> list[str]:
        """Return what a reader of the output should know: why each flag is there."""
        lines = ["Written by spectool serve --emit; edit the deployment file and write it again.", *self._reasons()]
        # A reason may quote a file; a line break in it would end the comment.
        return ["".join(char if char.isprintable() else " " for char in line) for line in lines]

    def _reasons(self) -> list[str]:
        return [f"{part.argv[0]}: {part.reason}" for part in self.parts[1:] if part.reason != "yours"]


def refuse_open_secrets(launch: Launch) -> None:
    """Refuse to write a secret into a file that will be copied around.

    Raises:
        UsageError: a flag or a variable holds one.

    """
    words = launch.argv
    for flag, shown in zip(words, redact_argv(words), strict=True):
        if flag != shown:
            raise UsageError(
                "a flag holds a secret, and what is emitted is a file to hand over",
                hint="Name it as a reference in a deployment file: secrets: {VLLM_API_KEY: env:VLLM_API_KEY}.",
            )
    for name in launch.env:
        if is_secret_name(name):
            raise UsageError(f"{name} is a secret; name where it comes from under secrets: of the deployment file")


def timing_flags(parts: Sequence[Flag], stop_seconds: int) -> list[Flag]:
    """Return `--shutdown-timeout`, unless it is there: without it vLLM drops what it is answering."""
    words = [word for part in parts for word in part.argv]
    seconds = max(0, stop_seconds - STOP_MARGIN)
    if flags.has(words, "--shutdown-timeout") or not seconds:
        return []
    reason = (
        f"requests in flight may finish; {STOP_MARGIN} s of the {stop_seconds} s before SIGKILL are left for the rest"
    )
    return [Flag(("--shutdown-timeout", str(seconds)), reason, "vllm/config/vllm.py, shutdown_timeout")]


def in_container(launch: Launch, verifier: str, drafter: str) -> Launch:
    """Return the launch as a container runs it: the image's own `vllm`, local folders mounted."""
    places = {
        path: target for path, target in ((verifier, VERIFIER_MOUNT), (drafter, DRAFTER_MOUNT)) if path.startswith("/")
    }
    program = Flag(("vllm", "serve", places.get(verifier, verifier_word(launch))), "the image's own command")
    parts = [program, *(_inside(part, places) for part in launch.parts[1:])]
    mounts = (*(Mount(path, target) for path, target in places.items()), *launch.mounts)
    return replace(launch, parts=tuple(parts), mounts=mounts)


def verifier_word(launch: Launch) -> str:
    """Return the model the command names."""
    return launch.parts[0].argv[-1]


def cache_mount(cache: str | None) -> tuple[Mount, ...]:
    """Return where downloaded models stay, as a deployment file's `cache` says."""
    if cache is None:
        return ()
    claim = cache.startswith("claim:")
    return (Mount(cache.removeprefix("claim:"), CACHE_MOUNT, read_only=False, claim=claim),)


def label(name: str) -> str:
    """Turn a served name into a DNS label: what Kubernetes, compose and systemd take as a name."""
    text = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(name).name.lower()).strip("-")
    text = text if text[:1].isalpha() else f"vllm-{text}".strip("-")
    return text[:50].rstrip("-")


def _inside(part: Flag, places: Mapping[str, str]) -> Flag:
    """Replace the drafter's folder inside `--speculative-config`."""
    if part.argv[0] != SPECULATIVE:
        return part
    config = json.loads(part.argv[1])
    config["model"] = places.get(config.get("model"), config.get("model"))
    return replace(part, argv=(SPECULATIVE, json.dumps(config)))
