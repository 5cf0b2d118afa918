from __future__ import annotations

import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_engine import environment, make_site, wait_for

from spectool.errors import EngineMissingError
from spectool.serving import client as client_module
from spectool.serving.acceptance import Check
from spectool.serving.address import Address, free_port
from spectool.serving.client import Client, Completion

Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start fake engines; return a client of each."""
    site = make_site(tmp_path / "site")
    running: list[subprocess.Popen[bytes]] = []

    def run(*flags: str, api_key: str | None = None, **behaviour: Any) -> Client:
        address = Address(port=free_port())
        argv = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "m", "--port", str(address.port)]
        env = environment(site, behaviour)
        running.append(subprocess.Popen([*argv, *flags], env=env, stderr=subprocess.DEVNULL))
        client = Client(address, api_key)
        wait_for(client.healthy, "health")
        return client

    yield run
    for process in running:
        process.kill()
        process.wait()


def test_a_completion_has_ids_and_gaps(start: Start) -> None:
    client = start(gap=0.75)
    assert client.complete("m", "abc", 3, 60.0) == Completion((21, 22, 23), (0.75, 0.75, 0.75))
    assert client.text_of("m", [5, 6]) == "<5><6>"


def test_metrics_and_an_api_key(start: Start) -> None:
    client = start("--api-key", "sk-1234567", api_key="sk-1234567")
    assert "vllm:generation_tokens_total" in client.metrics()
    assert client.complete("m", "a", 1, 60.0).tokens == (7,)
    client._key = None
    with pytest.raises(EngineMissingError, match="/v1/completions answered 401"):
        client.complete("m", "a", 1, 60.0)


def test_the_servers_own_message_is_told(start: Start) -> None:
    with pytest.raises(EngineMissingError, match=r"answered 404: The model `other` does not exist\."):
        start().complete("other", "a", 1, 60.0)


@pytest.mark.parametrize(
    "answer",
    [
        [],
        3,
        {},
        {"choices": []},
        {"choices": [{"logprobs": None}]},
        {"choices": [{"logprobs": {"tokens": ["x"], "top_logprobs": [{}]}}]},
        {"choices": [{"logprobs": {"tokens": ["token_id:1"], "top_logprobs": []}}]},
        {"choices": [{"logprobs": {"tokens": ["token_id:1"], "top_logprobs": [[1]]}}]},
        {"choices": [{"logprobs": {"tokens": ["token_id:1"], "top_logprobs": [{"a": "b"}]}}]},
    ],
)
def test_answers_of_another_shape(start: Start, answer: object) -> None:
    with pytest.raises(EngineMissingError):
        start(answer=answer).complete("m", "a", 1, 60.0)


def test_a_token_without_a_second_one_has_no_gap(start: Start) -> None:
    logprobs = {"tokens": ["token_id:1", "token_id:2"], "top_logprobs": [{"token_id:1": -0.1}, None]}
    client = start(answer={"choices": [{"logprobs": logprobs}]})
    assert client.complete("m", "a", 1, 60.0) == Completion((1, 2), (None, None))


def test_an_endless_answer_is_cut(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module.Client._ask, "__defaults__", (1 << 20,))
    with pytest.raises(EngineMissingError, match="answered more than 1048576 bytes"):
        start(endless=True).complete("m", "a", 1, 60.0)


def test_nobody_there() -> None:
    client = Client(Address(port=free_port()))
    assert not client.healthy()
    assert client.text_of("m", [1]) is None
    with pytest.raises(EngineMissingError, match="did not answer"):
        client.metrics()


@pytest.mark.parametrize("said", [b"", b"hello\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort"])
def test_something_that_does_not_speak_http(said: bytes) -> None:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(said)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(Address(port=server.server_address[1]))
        assert not client.healthy()
        with pytest.raises(EngineMissingError):
            client.metrics()
        server.shutdown()


def test_a_unix_socket(tmp_path: Path) -> None:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    path = os.path.relpath(tmp_path / "s") if len(str(tmp_path)) > 90 else str(tmp_path / "s")
    with socketserver.UnixStreamServer(path, Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert Client(Address(uds=path)).healthy()
        server.shutdown()


def test_a_check_that_is_stopped_hangs_up() -> None:
    """vLLM, told to stop, waits for its connections: one that nobody reads any more holds it until it is killed."""
    asked, ended = threading.Event(), threading.Event()

    class Silent(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while said := self.request.recv(65536):
                if said.startswith(b"GET /metrics"):
                    self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                    return
                asked.set()
            ended.set()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(Address(port=server.server_address[1]))
        check = Check(client, "m", prompts=["x"])
        assert check.run(asked.is_set, lambda: None) is None
        assert ended.wait(60.0)
        server.shutdown()
    wait_for(lambda: not client._open, "the end of the conversation")


def test_a_question_that_was_about_to_be_asked_is_ended_too() -> None:
    class Late(Client):
        """Its conversation opens only after the others were cut off."""

        asking, times = threading.Event(), 0
        opened = threading.Event()

        def metrics(self) -> str:
            return ""

        def complete(self, *_: object) -> Completion:
            self.asking.set()
            assert self.opened.wait(60.0)
            ours, theirs = socket.socketpair()
            with ours, theirs:
                self._open.add(ours)
                assert ours.recv(1) == b""  # waits for an answer, until it is cut off
            raise EngineMissingError("cut off")

        def hang_up(self, ended: Callable[[float], bool]) -> None:
            def later(seconds: float) -> bool:
                self.times += 1
                self.opened.set()
                return ended(seconds)

            super().hang_up(later)

    client = Late(Address(port=1))
    assert Check(client, "m", prompts=["x"]).run(client.asking.is_set, lambda: None) is None
    assert client.times > 1
    assert not [thread for thread in threading.enumerate() if thread.name == "check"]
