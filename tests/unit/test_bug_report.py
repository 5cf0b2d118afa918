"""`spectool env`: what helps, and nothing that must not be posted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import spectool
from fake_engine import environment as engine_variables
from fake_engine import make_site

from spectool.bug_report import environment, without_home
from spectool.errors import SourceError
from spectool.hub.cache import folder_of

SECRETS = {
    "HF_TOKEN": "hf_0123456789",
    "VLLM_API_KEY": "sk-0123456789",
    "HF_HUB_PROXY": "http://me:pw-0123@proxy:80",
    "NCCL_SOCKET_IFNAME": "eth0",
    "AWS_SECRET_ACCESS_KEY": "aws-0123456789",
    "PASSWORD": "pw-9876543210",
}


def test_no_secret_and_no_home_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "someone"
    site = make_site(home / "site", distribution="vllm", version="0.33.0")
    for name, value in {**engine_variables(site), **SECRETS, "HOME": str(home)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("VLLM_CACHE_ROOT", f"{home}/cache:/home/other/x")
    for form in ("text", "json"):
        done = spectool("env", "--format", form)
        assert done.code == 0, done.err
        for secret in ("hf_0123456789", "sk-0123456789", "pw-0123", "aws-", "pw-98", str(home), "/home/other"):
            assert secret not in done.out, form
    found = json.loads(done.out)
    assert found["engine"]["version"] == "0.33.0"
    assert found["variables"]["HF_TOKEN"] == "***"
    assert found["variables"]["NCCL_SOCKET_IFNAME"] == "eth0"
    assert found["variables"]["VLLM_CACHE_ROOT"] == "~/cache:~/x"
    assert "AWS_SECRET_ACCESS_KEY" not in found["variables"]
    assert found["packages"]["pydantic"]


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of a container, who stands in no list of users."""

    def unknown(_: object) -> None:
        raise KeyError("uid not found")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("pwd.getpwnam", unknown)


@pytest.mark.usefixtures("homeless")
def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    done = spectool("env")
    assert (done.code, done.err) == (0, "")
    done = spectool("validate", "x", "--engine-python", "~somebody/python")
    assert (done.code, "~somebody/python, which does not exist" in done.err) == (2, True), done.err
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", "~/.cache/huggingface")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "/nowhere")
    done = spectool("inspect", "org/drafter")  # offline: known by its name alone
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    with pytest.raises(SourceError, match="no home folder"):
        folder_of("org/drafter")


def test_without_an_engine_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("SPECTOOL_ENGINE", raising=False)
    found = environment()
    assert found["engine"]["found"] is False
    assert "no vLLM engine was found" in found["engine"]["why"]
    assert spectool("env").code == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/h/me/x", "~/x"),
        ("/h/me", "~"),
        ("/h/meadow/x", "/h/meadow/x"),
        ("/a:/h/me:/b", "/a:~:/b"),
        ("/home/you/y /Users/you", "~/y ~"),
        ("/usr/lib", "/usr/lib"),
    ],
)
def test_homes(text: str, shown: str) -> None:
    assert without_home(text, {"HOME": "/h/me"}) == shown
