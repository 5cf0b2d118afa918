"""A compose file: https://github.com/compose-spec/compose-spec."""

from __future__ import annotations

from typing import Any

from spectool.emit.launch import READY_TIMEOUT, Launch
from spectool.emit.shell import HEALTH, one_machine
from spectool.emit.yaml_out import document


def compose(launch: Launch) -> str:
    """Return a compose file with one service; secrets come from the shell's variables or an `.env` file.

    Raises:
        UsageError: several machines, or a volume claim.

    """
    one_machine(launch, "compose")
    environment = {READY_TIMEOUT: str(launch.start_seconds), **{k: _plain(v) for k, v in launch.env.items()}}
    for name, source in launch.secrets.items():
        variable = source.removeprefix("env:") if source.startswith("env:") else name
        environment[name] = f"${{{variable}:?{name} holds a secret}}"
    health = HEALTH.format(
        scheme=launch.scheme, port=launch.port, tls=", context=ssl._create_unverified_context()" if launch.tls else ""
    )
    service: dict[str, Any] = {
        "image": launch.image,
        "entrypoint": [launch.argv[0]],
        "command": [_plain(word) for word in launch.argv[1:]],
        "environment": environment,
        "ports": [f"{launch.port}:{launch.port}"],
        "shm_size": f"{launch.shm_gib}gb",
        "restart": "unless-stopped",
        "stop_signal": "SIGTERM",
        "stop_grace_period": f"{launch.stop_seconds}s",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", health],
            "interval": "15s",
            "timeout": "10s",
            "retries": 3,
            "start_period": f"{launch.start_seconds}s",
        },
    }
    if launch.mounts:
        service["volumes"] = [
            {"type": "bind", "source": _plain(mount.source), "target": mount.target, "read_only": mount.read_only}
            for mount in launch.mounts
        ]
    if launch.amd:
        service |= {"devices": ["/dev/kfd", "/dev/dri"], "group_add": ["video"]}
    else:
        count: int | str = "all" if launch.gpus is None else launch.gpus
        device = {"driver": "nvidia", "count": count, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return document({"name": launch.name, "services": {"vllm": service}}, comments=launch.comments())


def _plain(text: str) -> str:
    """Keep compose from taking a dollar for a variable."""
    return text.replace("$", "$$")
