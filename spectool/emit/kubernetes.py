"""Kubernetes: a Deployment and its Service, or a LeaderWorkerSet where one server spans several machines.

LeaderWorkerSet (https://lws.sigs.k8s.io) tells every pod its number and its leader's address in LWS_WORKER_INDEX and
LWS_LEADER_ADDRESS; it is a resource of its own that has to be installed.
"""

from __future__ import annotations

from typing import Any

from spectool.emit.launch import READY_TIMEOUT, Launch, Mount
from spectool.emit.yaml_out import document
from spectool.errors import UsageError

# Seconds between two looks while it starts.
_PROBE = 10


def kubernetes(launch: Launch) -> str:
    """Return the manifests.

    Raises:
        UsageError: a secret comes from a variable of the shell, which a cluster does not have.

    """
    labels = {"app.kubernetes.io/name": launch.name, "app.kubernetes.io/component": "vllm"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": launch.name, "labels": labels},
        "spec": {
            "selector": dict(labels),
            "ports": [{"name": launch.scheme, "port": launch.port, "targetPort": launch.port}],
        },
    }
    workload = _leader_worker_set(launch, labels) if launch.nodes > 1 else _deployment(launch, labels)
    return document(workload, service, comments=launch.comments())


def _deployment(launch: Launch, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": launch.name, "labels": labels},
        "spec": {
            "replicas": 1,
            # A second server finds no free GPUs while the first runs.
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": launch.start_seconds + 600,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": _pod(launch, launch.argv, serves=True)},
        },
    }


def _leader_worker_set(launch: Launch, labels: dict[str, str]) -> dict[str, Any]:
    several = [
        *launch.argv,
        *("--nnodes", str(launch.nodes), "--node-rank", "$(LWS_WORKER_INDEX)"),
        *("--master-addr", "$(LWS_LEADER_ADDRESS)"),
    ]
    # Only the leader answers requests: its pods alone carry the labels of the Service.
    leader = {"metadata": {"labels": dict(labels)}, "spec": _pod(launch, several, serves=True)}
    worker = {"spec": _pod(launch, [*several, "--headless"], serves=False)}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": launch.name},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": launch.nodes,
                # Ranks do not survive each other.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }


def _pod(launch: Launch, argv: list[str], *, serves: bool) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 - of the container
    volumes: list[dict[str, Any]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{launch.shm_gib}Gi"}}
    ]
    for number, mount in enumerate(launch.mounts):
        volumes.append({"name": f"models-{number}"} | _source(mount))
        mounts.append(
            {"name": f"models-{number}", "mountPath": mount.target} | ({"readOnly": True} if mount.read_only else {})
        )
    resource = "amd.com/gpu" if launch.amd else "nvidia.com/gpu"
    container: dict[str, Any] = {
        "name": "vllm",
        "image": launch.image,
        "command": [argv[0]],
        "args": [_plain(word) for word in argv[1:]],
        "env": _environment(launch),
        "resources": {"limits": {resource: str(launch.gpus or 1)}},
        "volumeMounts": mounts,
    }
    if serves:
        look = {"httpGet": {"path": "/health", "port": launch.port, "scheme": launch.scheme.upper()}}
        container |= {
            "ports": [{"name": launch.scheme, "containerPort": launch.port}],
            "startupProbe": look
            | {"periodSeconds": _PROBE, "failureThreshold": -(-launch.start_seconds // _PROBE), "timeoutSeconds": 5},
            "readinessProbe": look | {"periodSeconds": 5, "timeoutSeconds": 5},
            # vLLM ends with 0 when its engine dies, and /health says 503 before that.
            "livenessProbe": look | {"periodSeconds": _PROBE, "failureThreshold": 3, "timeoutSeconds": 10},
        }
    return {
        # A Service called vllm would set VLLM_PORT, which vLLM takes for its own setting.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": launch.stop_seconds,
        "containers": [container],
        "volumes": volumes,
    }


def _environment(launch: Launch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": READY_TIMEOUT, "value": str(launch.start_seconds)}]
    found += [{"name": name, "value": _plain(value)} for name, value in launch.env.items()]
    for name, source in launch.secrets.items():
        if not source.startswith("secret:"):
            raise UsageError(
                f"{name} comes from a variable ({source}), which a cluster does not have",
                hint=f"Name a Kubernetes secret: secrets: {{{name}: secret:NAME/KEY}}.",
            )
        secret, _, key = source.removeprefix("secret:").partition("/")
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return found


def _source(mount: Mount) -> dict[str, Any]:
    if mount.claim:
        return {"persistentVolumeClaim": {"claimName": mount.source}}
    return {"hostPath": {"path": mount.source, "type": "Directory" if mount.read_only else "DirectoryOrCreate"}}


def _plain(word: str) -> str:
    """Keep Kubernetes from taking `$(NAME)` for a variable, except the two that LeaderWorkerSet sets."""
    return word if word in ("$(LWS_WORKER_INDEX)", "$(LWS_LEADER_ADDRESS)") else word.replace("$(", "$$(")
