"""A minimal client for a vLLM server. Its answers are not trusted: sizes and times are limited, shapes are checked."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spectool.errors import EngineMissingError
from spectool.serving.address import Address
from spectool.serving.log import clean

# Bytes. /metrics of a server with many histograms is some 100 kB; 2,000 tokens with log-probabilities about 300 kB.
MAX_ANSWER = 32 << 20
# Seconds for the short questions; a completion gets its own time.
SHORT_TIMEOUT = 5.0
_CHUNK = 1 << 16
# Seconds after its own limit at which a conversation is cut.
GUARD_MARGIN = 1.0
# How often, and with how many seconds between, conversations of other threads are ended until there are none.
_HANG_UPS = 20
_BETWEEN = 0.1
# What to do next, where the kind of fault tells.
_HINTS: dict[type[BaseException], str] = {
    ConnectionRefusedError: "Nothing listens there: is the server up, and is this its port? (curl URL/v1/models)",
    socket.gaierror: "No machine of this name is known here: check the address.",
}


@dataclass(frozen=True)
class Completion:
    """A greedy continuation.

    Attributes:
        tokens: ids of the generated tokens.
        gaps: per token, the log-probability of the best token minus that of the second best, in nats; None where the
            server did not give two.

    """

    tokens: tuple[int, ...]
    gaps: tuple[float | None, ...]


class Client:
    """Asks one server.

    Args:
        address: where it listens.
        api_key: sent as bearer token, never shown.
        prefix: of every path, for a server behind a gateway.
        public: whether it is somebody else's server: its certificate is checked, and every path may want the key.

    """

    def __init__(self, address: Address, api_key: str | None = None, *, prefix: str = "", public: bool = False) -> None:
        self._address = address
        self._key = api_key
        self._prefix = prefix
        self._public = public
        self._open: set[socket.socket] = set()

    def hang_up(self, ended: Callable[[float], bool]) -> None:
        """End what other threads are asking; they see it fail.

        A server that is told to stop waits for its connections first (vLLM 0.32, seen when two ranks were stopped
        while one answered: the answer never came), and Python waits for its threads before it exits.

        Args:
            ended: waits for those threads, at most so many seconds, and says whether they have ended. One that was
                about to ask when the others were cut off is caught by the next try.

        """
        for _ in range(_HANG_UPS):
            for line in tuple(self._open):
                _end(line)
            if ended(_BETWEEN):
                return

    def healthy(self) -> bool:
        """Say whether `/health` answers 200: vLLM listens only when its engine is ready."""
        try:
            return self._ask("GET", "/health", None, SHORT_TIMEOUT, limit=_CHUNK)[0] == 200
        except EngineMissingError:
            return False

    def metrics(self) -> str:
        """Return the Prometheus text of `/metrics`.

        Raises:
            EngineMissingError: no usable answer.

        """
        status, body = self._ask("GET", "/metrics", None, SHORT_TIMEOUT)
        if status != 200:
            raise EngineMissingError(f"{self._address}/metrics answered {status}")
        return body.decode("utf-8", "replace")

    def complete(self, model: str, prompt: str, max_tokens: int, timeout: float) -> Completion:
        """Return the greedy continuation of a prompt, of exactly max_tokens tokens where the context allows it.

        Args:
            model: the served name.
            prompt: text.
            max_tokens: tokens to generate, also past an end-of-text token.
            timeout: seconds for the whole answer.

        Raises:
            EngineMissingError: no usable answer.

        """
        question = {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": 2,
            # Ids, since different tokens can have the same text.
            "return_tokens_as_token_ids": True,
        }
        return _completion(self.post("/v1/completions", question, timeout), str(self._address))

    def text_of(self, model: str, tokens: Sequence[int]) -> str | None:
        """Return the text of tokens, or None where the server does not tell."""
        try:
            answer = self.post("/detokenize", {"model": model, "tokens": list(tokens)}, SHORT_TIMEOUT)
        except EngineMissingError:
            return None
        text = answer.get("prompt")
        return text if isinstance(text, str) else None

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at a path.

        Raises:
            EngineMissingError: no usable answer.

        """
        return self._json("GET", path, None, SHORT_TIMEOUT)

    def post(self, path: str, question: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Return the JSON object that answers a question.

        Raises:
            EngineMissingError: no usable answer.

        """
        return self._json("POST", path, json.dumps(question).encode(), timeout)

    def _json(self, method: str, path: str, question: bytes | None, timeout: float) -> dict[str, Any]:
        status, body = self._ask(method, path, question, timeout)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if status != 200:
            raise EngineMissingError(f"{self._address}{path} answered {status}{_said(answer)}")
        if not isinstance(answer, dict):
            raise EngineMissingError(f"{self._address}{path} answered something that is not a JSON object")
        return answer

    def _ask(
        self, method: str, path: str, body: bytes | None, timeout: float, limit: int | None = None
    ) -> tuple[int, bytes]:
        """Send one request on its own connection. No proxy, no redirect."""
        end = time.monotonic() + timeout
        headers = {"Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key and (self._public or path.startswith("/v1/")):
            headers["Authorization"] = f"Bearer {self._key}"
        connection = _connect(self._address, timeout, public=self._public)
        response, line, late = None, None, threading.Event()
        # A server may send a byte now and then for ever; no single read notices.
        guard = threading.Timer(timeout + GUARD_MARGIN, lambda: _cut(line, late))
        guard.daemon = True
        guard.start()
        try:
            connection.connect()
            line = connection.sock  # the connection itself forgets it with the answer's headers
            self._open.add(line)
            connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            received = bytearray()
            while chunk := response.read1(_CHUNK):
                received += chunk
                if len(received) > (most := limit or MAX_ANSWER):
                    raise EngineMissingError(f"{self._address}{path} answered more than {most} bytes")
                if time.monotonic() > end:
                    raise EngineMissingError(f"{self._address}{path} did not finish within {timeout:.0f} s")
            # A read with a size does not notice an answer that was cut off.
            announced = response.getheader("Content-Length")
            if announced is not None and len(received) < int(announced):
                raise EngineMissingError(f"{self._address}{path} stopped after {len(received)} of {announced} bytes")
            if late.is_set():
                raise EngineMissingError(f"{self._address}{path} did not finish within {timeout:.0f} s")
            return response.status, bytes(received)
        except (OSError, http.client.HTTPException, ValueError) as error:
            ran_out = late.is_set() or isinstance(error, TimeoutError)
            why = f"nothing complete within {timeout:.0f} s" if ran_out else error or type(error).__name__
            raise EngineMissingError(
                f"{self._address}{path} did not answer: {clean(str(why)[:500])}", hint=_HINTS.get(type(error))
            ) from error
        finally:
            guard.cancel()
            if line is not None:
                self._open.discard(line)
            if response is not None:
                response.close()
            connection.close()
            if line is not None:
                line.close()


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def all_ended(asked: Sequence[Future[Any]], seconds: float) -> bool:
    """Wait for questions that were asked in a pool, at most so many seconds; those cancelled before never begin."""
    return not wait([future for future in asked if not future.cancelled()], seconds).not_done


def _cut(line: socket.socket | None, late: threading.Event) -> None:
    """End a conversation that takes too long, under the feet of whoever reads."""
    late.set()
    _end(line)


def _end(line: socket.socket | None) -> None:
    if line is not None:
        with suppress(OSError):  # it ended by itself
            line.shutdown(socket.SHUT_RDWR)


def _connect(address: Address, timeout: float, *, public: bool) -> http.client.HTTPConnection:
    if address.uds:
        return _UnixConnection(address.uds, timeout)
    if address.tls:
        # The certificate of a child of ours names a public host, not the loopback.
        context = ssl.create_default_context()
        if not public:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=context)
    return http.client.HTTPConnection(address.host, address.port, timeout=timeout)


def _completion(answer: dict[str, Any], server: str) -> Completion:
    """Check the shape of a completion and take what is needed."""
    try:
        logprobs = answer["choices"][0]["logprobs"]
        tokens = tuple(int(str(token).removeprefix("token_id:")) for token in logprobs["tokens"])
        tops = logprobs["top_logprobs"]
        if len(tops) != len(tokens):
            raise ValueError("tokens and top_logprobs differ in length")  # noqa: TRY301 - one handler for every malformed answer
        return Completion(tokens, tuple(_gap(top) for top in tops))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise EngineMissingError(f"{server} answered a completion that cannot be read: {error!r}") from error


def _gap(top: dict[str, Any] | None) -> float | None:
    best = sorted((float(value) for value in (top or {}).values()), reverse=True)
    return best[0] - best[1] if len(best) > 1 else None


def _said(answer: object) -> str:
    """Return the server's own message, shortened, without what would steer a terminal."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error", answer)
    message = error.get("message") if isinstance(error, dict) else None
    return f": {clean(message[:500])}" if isinstance(message, str) else ""
