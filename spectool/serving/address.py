"""Where a server will listen, read from the flags it is started with."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectool.errors import UsageError
from spectool.planning import flags

DEFAULT_PORT = 8000  # of `vllm serve`
# A server that listens everywhere is asked over the loopback.
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}  # noqa: S104 - an address to recognise, not to bind


@dataclass(frozen=True)
class Address:
    """A server's address: TCP, or a Unix socket when `uds` is set.

    Attributes:
        host: to connect to, never a wildcard.
        port: TCP port.
        tls: whether it speaks https.
        uds: path of a Unix socket.

    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    tls: bool = False
    uds: str | None = None

    def __str__(self) -> str:
        if self.uds:
            return f"unix:{self.uds}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    def taken(self) -> bool:
        """Say whether something answers there already: its health would be mistaken for the new server's."""
        family = socket.AF_UNIX if self.uds else socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.settimeout(2.0)
                probe.connect(self.uds or (self.host, self.port))
        except OSError:
            return False
        return True


def from_flags(arguments: Sequence[str], config_file: Mapping[str, str] | None = None) -> Address | None:
    """Return where `vllm serve` with these flags will listen; None where it opens no HTTP server (`--headless`).

    Args:
        arguments: the command line.
        config_file: top-level keys of its `--config` file, which the command line overrides.

    Raises:
        UsageError: the port is no port.

    """
    keys = config_file or {}
    if flags.has(arguments, "--headless") or keys.get("headless") == "true":
        return None

    def setting(name: str) -> str | None:
        given = flags.value_of(arguments, f"--{name}")
        return given if given is not None else keys.get(name)

    text = setting("port")
    try:
        port = DEFAULT_PORT if text is None else int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {text} is not a port")
    host = (setting("host") or "").strip("[]")
    tls = bool(setting("ssl-certfile") or setting("ssl-keyfile"))
    return Address(host=_LOOPBACK.get(host, host), port=port, tls=tls, uds=setting("uds"))


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free on a loopback address, and on Linux stays so until the server we start takes it.

    An engine binds its port seconds after it was told it, and meanwhile the system may hand it to anybody: a server
    that asks for any port, or the near end of some connection. A socket that is bound and does not listen keeps both
    away until this process ends, and lets in who names the port and sets SO_REUSEADDR. vLLM does (create_server_socket
    in entrypoints, 0.20 to 0.33), and so do uvicorn and Python's own servers.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as keeper:
        if sys.platform == "linux":  # elsewhere such a socket keeps the server out too
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((host, 0))
        port = int(keeper.getsockname()[1])
        if sys.platform == "linux":
            keeper.detach()  # it stays open, and no child inherits it
    return port


def with_port(arguments: Sequence[str]) -> list[str]:
    """Return the flags with `--port 0` replaced by a port that is free now.

    vLLM would let the system choose and never say which; then nobody could ask for its health.
    """
    changed = list(arguments)
    host = flags.value_of(arguments, "--host") or ""
    for flag in flags.given(arguments):
        if flag.name == "--port" and flag.value == "0":
            words = ["--port", str(free_port(_LOOPBACK.get(host, host)))]
            changed[flag.start : flag.stop] = words if flag.stop - flag.start == 2 else ["=".join(words)]
    return changed
