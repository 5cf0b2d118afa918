"""What `serve --emit` writes, held against the tools that read it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from clean_run import write_program
from command_line import spectool

from spectool.cli.serve import EmitKind
from spectool.emit.launch import Launch, label
from spectool.emit.shell import script
from spectool.emit.systemd import unit
from spectool.emit.write import Kind
from spectool.planning.command import Flag

SECRETS = {"HF_TOKEN": "secret:hub/token", "VLLM_API_KEY": "secret:vllm/api-key"}
# Signs that one reader or another takes for its own: variables, specifiers, quotes.
NASTY = "a $HOME $(date) %h \"b\" 'c' \\ #d"
PINNED = "spectool/tiny-verifier@0123abc"


@pytest.fixture
def deployment(tmp_path: Path, pairs: Path) -> Any:
    def write(**keys: Any) -> str:
        content = {
            "deployment_version": 1,
            "drafter": str(pairs / "dflash-zlab"),
            "verifier": str(pairs / "verifier"),
            "gpus": "a100-80gb:1",
            "served_name": "tiny",
            "secrets": SECRETS,
            "env": {"GREETING": NASTY},
            "cache": "/srv/models",
            "vllm": {"chat-template": NASTY, "enable-prefix-caching": False, "allowed-origins": ["a", "b"]},
        } | keys
        path = tmp_path / "serve.yaml"
        path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
        return str(path)

    return write


def emitted(kind: str, file: str, *flags: str) -> str:
    done = spectool("serve", file, "--emit", kind, *flags)
    assert done.code == 0, done.err
    return done.out


def test_the_kinds_are_those_of_the_command_line() -> None:
    assert [kind.value for kind in EmitKind] == [kind.value for kind in Kind]


def run(*command: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **more)


def shellcheck(text: str) -> None:
    tool = Path(sys.executable).with_name("shellcheck")
    # SC2016: dollars in single quotes do not expand, which is what single quotes are for here.
    done = run(tool, "--severity=style", "--exclude=SC2016", "-", input=text)
    assert done.returncode == 0, done.stdout + text


@pytest.mark.parametrize("gpus", ["a100-80gb:1", "a100-80gb:1x2"])
def test_the_script_passes_shellcheck_and_hands_over_every_word(deployment: Any, tmp_path: Path, gpus: str) -> None:
    """Run with an engine that prints its words and variables."""
    text = emitted("sh", deployment(gpus=gpus, vllm={"chat-template": NASTY, "max-model-len": 512}))
    shellcheck(text)
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    fake = write_program(tmp_path / "bin" / "vllm", code)
    (tmp_path / "serve.sh").write_text(text)
    env = {"PATH": f"{fake.parent}:/usr/bin:/bin", "HF_TOKEN": "x1", "VLLM_API_KEY": "x2"}
    env |= {"NODE_RANK": "1", "MASTER_ADDR": "head"} if gpus.endswith("x2") else {}
    done = run("sh", tmp_path / "serve.sh", "--seed", "3", env=env)
    assert done.returncode == 0, done.stderr
    words, variables = json.loads(done.stdout)
    assert words[0] == "serve"
    assert words[words.index("--chat-template") + 1] == NASTY
    assert words[words.index("--shutdown-timeout") + 1] == "50"
    assert (variables["GREETING"], variables["HF_HOME"]) == (NASTY, "/srv/models")
    assert (variables["HF_TOKEN"], variables["VLLM_ENGINE_READY_TIMEOUT_S"]) == ("x1", "1800")
    worker = ["--nnodes", "2", "--node-rank", "1", "--master-addr", "head", "--headless"]
    assert (
        words[-len(worker) - 2 :] == [*worker, "--seed", "3"] if gpus.endswith("x2") else words[-2:] == ["--seed", "3"]
    )
    refused = run("sh", tmp_path / "serve.sh", env=env | {"HF_TOKEN": ""})
    assert refused.returncode != 0
    assert "HF_TOKEN holds a secret" in refused.stderr


def test_docker_run_mounts_folders_and_passes_secrets_by_name(deployment: Any, tmp_path: Path, pairs: Path) -> None:
    text = emitted("docker", deployment(secrets={"HF_TOKEN": "env:MY_TOKEN"}, vllm={"chat-template": NASTY}))
    shellcheck(text)
    write_program(
        tmp_path / "docker", "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['HF_TOKEN']]))"
    )
    (tmp_path / "run.sh").write_text(text)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MY_TOKEN": "hf_secret"}
    words, token = json.loads(run("sh", tmp_path / "run.sh", env=env).stdout)
    assert token == "hf_secret"
    assert "hf_secret" not in words
    at = words.index("--entrypoint")
    assert words[at : at + 5] == ["--entrypoint", "vllm", "vllm/vllm-openai:v0.33.0", "serve", "/models/verifier"]
    assert words[words.index("--chat-template") + 1] == NASTY
    assert f"{pairs / 'dflash-zlab'}:/models/drafter:ro" in words
    assert "/srv/models:/root/.cache/huggingface" in words
    speculative = json.loads(words[words.index("--speculative-config") + 1])
    assert speculative["model"] == "/models/drafter"
    for option, value in (
        ("--stop-timeout", "60"),
        ("--shm-size", "16g"),
        ("--gpus", "1"),
        ("--health-start-period", "1800s"),
    ):
        assert words[words.index(option) + 1] == value


def test_compose_fits_its_schema(deployment: Any, tmp_path: Path) -> None:
    text = emitted("compose", deployment(stop_seconds=120, shm_gib=32))
    (tmp_path / "compose.yaml").write_text(text)
    done = run(
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", tmp_path / "compose.yaml"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    service = yaml.safe_load(text)["services"]["vllm"]
    assert service["environment"]["HF_TOKEN"] == "${HF_TOKEN:?HF_TOKEN holds a secret}"
    assert service["environment"]["GREETING"] == NASTY.replace("$", "$$")
    assert NASTY.replace("$", "$$") in service["command"]
    assert (service["stop_grace_period"], service["shm_size"]) == ("120s", "32gb")
    assert service["command"][-2:] == ["--shutdown-timeout", "110"]
    assert service["healthcheck"]["start_period"] == "1800s"


def test_kubernetes_takes_the_manifests(deployment: Any) -> None:
    workload, service = yaml.safe_load_all(emitted("k8s", deployment(cache="claim:models", start_seconds=905)))
    for manifest in (workload, service):
        kubernetes_validate.validate(manifest, "1.33", strict=True)
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"] >= 905
    assert pod["terminationGracePeriodSeconds"] == 60
    assert pod["enableServiceLinks"] is False
    assert NASTY.replace("$(", "$$(") in container["args"]
    secrets = {entry["name"]: entry["valueFrom"]["secretKeyRef"] for entry in container["env"] if "valueFrom" in entry}
    assert secrets == {"HF_TOKEN": {"name": "hub", "key": "token"}, "VLLM_API_KEY": {"name": "vllm", "key": "api-key"}}
    assert {"persistentVolumeClaim": {"claimName": "models"}, "name": "models-2"} in pod["volumes"]
    assert workload["spec"]["template"]["metadata"]["labels"] == service["spec"]["selector"]


def test_several_machines_become_a_leader_worker_set(deployment: Any) -> None:
    workload, service = yaml.safe_load_all(emitted("k8s", deployment(gpus="a100-80gb:1x2")))
    assert workload["kind"] == "LeaderWorkerSet"
    group = workload["spec"]["leaderWorkerTemplate"]
    assert group["size"] == 2
    leader, worker = group["leaderTemplate"], group["workerTemplate"]
    for template in (leader, worker):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}
        kubernetes_validate.validate(pod, "1.33", strict=True)
        args = template["spec"]["containers"][0]["args"]
        assert args[args.index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)"
        assert args[args.index("--tensor-parallel-size") + 1] == "2"
    assert "--headless" in worker["spec"]["containers"][0]["args"]
    assert "--headless" not in leader["spec"]["containers"][0]["args"]
    # Workers open no HTTP server: neither probes nor the Service may look for one.
    assert "readinessProbe" not in worker["spec"]["containers"][0]
    assert leader["metadata"]["labels"] == service["spec"]["selector"]
    assert "metadata" not in worker


def test_systemd_takes_the_unit(deployment: Any, tmp_path: Path) -> None:
    text = emitted("systemd", deployment())
    assert "TimeoutStopSec=60\n" in text
    assert 'Environment="GREETING=a $HOME $(date) %%h \\"b\\"' in text
    assert '"a $$HOME $$(date) %%h \\"b\\"' in text
    assert "Restart=always\n" in text
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("this machine has no systemd-analyze")
    (tmp_path / "tiny.service").write_text(text)
    done = run(tool, "verify", "--man=no", tmp_path / "tiny.service")
    ours = [line for line in done.stderr.splitlines() if "tiny.service" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_a_flag_file_holds_every_flag(deployment: Any) -> None:
    found = yaml.safe_load(
        emitted("vllm-config", deployment(verifier=PINNED, gpus=None, vllm={"allowed-origins": ["a", "b"]}))
    )
    assert found["model"] == "spectool/tiny-verifier"
    assert found["revision"] == "0123abc"
    assert found["speculative-config"]["num_speculative_tokens"] == 7
    assert found["allowed-origins"] == '["a", "b"]'  # vLLM would make two words of a list, and its parser wants JSON
    short = emitted("vllm-config", deployment(gpus=None, vllm=None), "--", "-tp", "2", "--max_model_len=512")
    assert (yaml.safe_load(short)["tensor-parallel-size"], yaml.safe_load(short)["max-model-len"]) == (2, 512)


@pytest.mark.parametrize("kind", [kind.value for kind in Kind])
def test_no_output_holds_a_secret(deployment: Any, kind: str) -> None:
    done = spectool("serve", deployment(gpus=None), "--emit", kind, "--", "--api-key", "sk-0123456789")
    assert done.code == 2
    assert "holds a secret" in done.err
    assert "sk-0123456789" not in done.out + done.err


@pytest.mark.parametrize(
    ("kind", "keys", "message"),
    [
        ("docker", {"gpus": "a100-80gb:1x2"}, "is for one machine"),
        ("compose", {"cache": "claim:models"}, "volume claim"),
        ("systemd", {"gpus": "a100-80gb:1x2"}, "is for one machine"),
        ("sh", {"cache": "claim:models"}, "volume claim"),
        ("k8s", {"secrets": {"HF_TOKEN": "env:HF_TOKEN"}}, "which a cluster does not have"),
        ("k8s", {"vllm": {"uds": "/run/socket"}}, "answers over TCP"),
    ],
)
def test_what_an_output_cannot_hold_is_refused(deployment: Any, kind: str, keys: dict[str, Any], message: str) -> None:
    done = spectool("serve", deployment(**keys), "--emit", kind)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_what_is_not_pinned_is_said(deployment: Any) -> None:
    pinned = spectool("serve", deployment(verifier=PINNED, gpus=None), "--emit", "sh")
    open_ = spectool("serve", deployment(verifier="spectool/tiny-verifier", gpus=None), "--emit", "sh")
    assert "not pinned" not in pinned.err
    assert "the verifier spectool/tiny-verifier is not pinned" in open_.err


def test_a_reason_that_quotes_a_file_stays_a_comment(tmp_path: Path) -> None:
    flag = Flag(("--seed", "1"), "the file says x\nrm -rf /\u2028\r\x1b[0m")
    launch = Launch("n", (Flag(("vllm", "serve", "m"), ""), flag), 8000, "image")
    for text in (script(launch), unit(launch)):
        assert any(line.startswith("# --seed: the file says x rm -rf /") for line in text.splitlines())
        assert not any(line.startswith("rm") for line in text.splitlines())


def test_systemd_reads_control_signs_back() -> None:
    launch = Launch("n", (Flag(("vllm", "serve", "a\x07b\nc"), ""),), 8000, "image")
    assert '"a\\x07b\\nc"' in unit(launch)


@pytest.mark.parametrize(
    ("name", "expected"), [("Qwen/Qwen3-8B", "qwen3-8b"), ("a_b.c", "a-b-c"), ("8b", "vllm-8b"), ("x" * 80, "x" * 50)]
)
def test_names_become_dns_labels(name: str, expected: str) -> None:
    assert label(name) == expected
