from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from spectool.errors import UsageError
from spectool.serving.address import Address, free_port, from_flags, with_port

EVERYWHERE = "0.0.0.0"  # noqa: S104 - an address to recognise, not to bind


@pytest.mark.parametrize(
    ("flags", "file", "expected"),
    [
        ([], {}, Address("127.0.0.1", 8000)),
        (["--port", "8001"], {}, Address("127.0.0.1", 8001)),
        (["--port=8001", "--host", EVERYWHERE], {}, Address("127.0.0.1", 8001)),
        (["--host", "::"], {}, Address("::1", 8000)),
        (["--host=[::1]"], {}, Address("::1", 8000)),
        (["--host", "10.1.2.3"], {}, Address("10.1.2.3", 8000)),
        ([], {"port": "9000", "host": EVERYWHERE}, Address("127.0.0.1", 9000)),
        (["--port", "8001"], {"port": "9000"}, Address("127.0.0.1", 8001)),
        (["--ssl-certfile", "c", "--ssl-keyfile", "k"], {}, Address("127.0.0.1", 8000, tls=True)),
        (["--uds", "/run/v.sock"], {}, Address("127.0.0.1", 8000, uds="/run/v.sock")),
        (["--headless"], {}, None),
        ([], {"headless": "true"}, None),
        (["--headless-mode"], {}, Address()),
    ],
)
def test_where_a_server_listens(flags: list[str], file: dict[str, str], expected: Address | None) -> None:
    assert from_flags(flags, file) == expected


@pytest.mark.parametrize("port", ["x", "-1", "65536", ""])
def test_what_is_no_port(port: str) -> None:
    with pytest.raises(UsageError):
        from_flags([f"--port={port}"])


def test_addresses_as_text() -> None:
    assert str(Address("::1", 1)) == "http://[::1]:1"
    assert str(Address("h", 2, tls=True)) == "https://h:2"
    assert str(Address(uds="/s")) == "unix:/s"


def test_port_zero_becomes_a_free_one() -> None:
    words = with_port(["--host", "127.0.0.1", "--port", "0", "--seed", "1"])
    assert words[:3] == ["--host", "127.0.0.1", "--port"]
    assert words[4:] == ["--seed", "1"]
    assert int(words[3]) > 0
    assert with_port(["--port=0"])[0].startswith("--port=")
    assert with_port(["--port=0"]) != ["--port=0"]
    assert with_port(["--port", "80", "--seed", "0"]) == ["--port", "80", "--seed", "0"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a bound socket would keep the server out too")
@pytest.mark.parametrize("flags", [["SO_REUSEADDR"], ["SO_REUSEADDR", "SO_REUSEPORT"]])
def test_a_free_port_is_kept_for_the_server_that_names_it(flags: list[str]) -> None:
    address = Address(port=free_port())
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((address.host, address.port))
    assert not Address(port=address.port).taken()
    with socket.socket() as server:
        for flag in flags:  # as Python's servers and uvicorn, and as vLLM
            server.setsockopt(socket.SOL_SOCKET, getattr(socket, flag), 1)
        server.bind(("0.0.0.0", address.port))  # noqa: S104 - an engine that listens everywhere
        server.listen()
        assert address.taken()
    assert free_port() != address.port


def test_a_taken_address_is_seen(tmp_path: Path) -> None:
    assert not Address(port=free_port()).taken()
    assert not Address(uds=str(tmp_path / "none")).taken()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert Address(port=server.getsockname()[1]).taken()
