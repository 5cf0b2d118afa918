"""Ask a Hub for a commit's files and for bytes of them, over the session of `huggingface_hub`.

The session brings proxies, certificates and `HF_HUB_OFFLINE`; headers bring the usual token. Redirects are followed
here: the token stays with the Hub, and never goes to the host that stores the files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from spectool.errors import SourceError
from spectool.hub.errors import (
    BrokenError,
    as_headers,
    describe,
    endpoint,
    refused,
    shown_endpoint,
    transport_error,
    unreachable,
)
from spectool.hub.reference import Reference
from spectool.hub.repository import MAX_LISTING_BYTES, RemoteFile, Repository, parse_repository

PIECE_BYTES = 2**20
MAX_REDIRECTS = 5
MAX_IN_A_ROW = 4
"""Failures without a byte between them, after which the Hub counts as unreachable."""
MAX_FAILURES = 30
PAUSE_SECONDS = 0.5
"""Before the first repetition; doubled before each further one."""

_CONTENT_RANGE = re.compile(r"bytes (\d{1,20})-(\d{1,20})/(\d{1,20})")
_REDIRECTS = {301, 302, 303, 307, 308}


def resolve(ref: Reference) -> Repository:
    """Return the commit a reference stands for now, and the files it has.

    Raises:
        SourceError: the repository or revision does not exist or may not be read, the Hub cannot be reached, or its
            answer is none.

    """
    revision = ref.revision or "main"
    address = f"{endpoint()}/api/models/{ref.repo}/revision/{quote(revision, safe='')}?blobs=true"

    def once() -> bytes:
        data = bytearray()
        with _opened(ref, address, {}, None) as response:
            for piece in response.iter_bytes():
                data += piece
                if len(data) > MAX_LISTING_BYTES:
                    break
        if len(data) > MAX_LISTING_BYTES:
            raise SourceError(f"{ref.repo}: the Hub's list of files is longer than {MAX_LISTING_BYTES} bytes")
        return bytes(data)

    return parse_repository(ref, _repeated(ref.repo, once), f"the answer of {shown_endpoint()} about {ref.repo}")


def read_range(repository: Repository, file: RemoteFile, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` up to `stop`, going on where a connection broke.

    Raises:
        SourceError: the file cannot be read, or the Hub sends other bytes than were asked for.

    """
    ref = Reference(repository.repo, repository.commit)
    position, in_a_row, failures = start, 0, 0
    while position < stop:
        before = position
        try:
            for piece in _pieces(ref, file, position, stop):
                position += len(piece)
                yield piece
        except BrokenError as error:
            failures += 1
            in_a_row = 1 if position > before else in_a_row + 1
            if in_a_row >= MAX_IN_A_ROW or failures >= MAX_FAILURES:
                raise unreachable(f"{ref.repo}: {file.name}", str(error)) from None
            _pause(in_a_row)


def _pieces(ref: Reference, file: RemoteFile, start: int, stop: int) -> Iterator[bytes]:
    where = f"{ref.repo}: {file.name}"
    path = "/".join(quote(part, safe="") for part in file.name.split("/"))
    address = f"{endpoint()}/{ref.repo}/resolve/{ref.revision}/{path}"
    wanted = {"range": f"bytes={start}-{stop - 1}", "accept-encoding": "identity"}
    with _opened(ref, address, wanted, file.name) as response:
        _check_range(where, response, start, stop, file.size)
        left = stop - start
        # As they come: pieces of a given size would be gathered first, and lost with the connection.
        for piece in response.iter_raw():
            if len(piece) > left:
                raise SourceError(f"{where}: the Hub sends more bytes than it was asked for")
            left -= len(piece)
            yield piece
        if left:
            raise BrokenError(f"the answer was cut off {left} bytes before its end")


def _check_range(where: str, response: Any, start: int, stop: int, size: int) -> None:
    headers = as_headers(response)
    if headers.get("content-encoding", "identity") != "identity":
        raise SourceError(f"{where}: the Hub sends the file compressed, though it was asked not to")
    if response.status_code == 206:
        match = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
        if match is None or (int(match[1]), int(match[2])) != (start, stop - 1):
            raise SourceError(f"{where}: the Hub sends other bytes than {start} to {stop - 1}, which it was asked for")
        if int(match[3]) != size:
            raise SourceError(f"{where}: the Hub lists {size} bytes, and the file it sends has {match[3]}")
        return
    if start or stop != size:
        raise SourceError(
            f"{where}: the server sends the whole file where a part was asked for (status {response.status_code})",
            hint=f"It does not answer byte ranges. Download first: hf download {where.partition(':')[0]}",
        )
    length = headers.get("content-length")
    if length is not None and length != str(size):
        raise SourceError(f"{where}: the Hub lists {size} bytes, and the file it sends has {length[:20]}")


@contextmanager
def _opened(ref: Reference, address: str, extra: Mapping[str, str], file: str | None) -> Iterator[Any]:
    """Open an answer after its redirects.

    Raises:
        SourceError: the answer is a refusal, or redirects lead nowhere.
        BrokenError: the connection or the server failed; that may pass.

    """
    from huggingface_hub import constants, get_session  # noqa: PLC0415 - imported where needed: start-up stays quick

    headers = {**_own_headers(), **extra}
    authorised = "authorization" in headers
    home = _origin(address)
    try:
        for _ in range(MAX_REDIRECTS + 1):
            with get_session().stream(
                "GET", address, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT, follow_redirects=False
            ) as response:
                if response.status_code not in _REDIRECTS:
                    _check_status(ref, response, file, authorised=authorised)
                    yield response
                    return
                address = _next(ref, address, as_headers(response).get("location", ""))
            if _origin(address) != home:
                headers = {
                    key: value for key, value in headers.items() if key.lower() not in {"authorization", "cookie"}
                }
                authorised = False
        raise SourceError(f"{ref.repo}: the Hub redirects more than {MAX_REDIRECTS} times, without an answer")
    except (transport_error(), OSError) as error:
        if isinstance(error, SourceError):
            raise
        raise BrokenError(describe(error)) from None


def _own_headers() -> dict[str, str]:
    """Return who asks. The client's own function also looks for what runs it, and asks the Hub about that."""
    from huggingface_hub import constants, get_token  # noqa: PLC0415 - as above

    from spectool import __version__  # noqa: PLC0415 - as above

    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    return {"user-agent": f"spectool/{__version__}"} | ({"authorization": f"Bearer {token}"} if token else {})


def _check_status(ref: Reference, response: Any, file: str | None, *, authorised: bool) -> None:
    if response.status_code not in {200, 206}:
        raise refused(ref, response.status_code, as_headers(response), file=file, authorised=authorised)


def _next(ref: Reference, address: str, location: str) -> str:
    target = urljoin(address, location)
    parts = urlsplit(target)
    if not location or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SourceError(f"{ref.repo}: the Hub redirects to an address that is none")
    if parts.scheme == "http" and urlsplit(address).scheme == "https":
        raise SourceError(f"{ref.repo}: the Hub redirects from https to http, which is not followed")
    return target


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    try:
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        raise SourceError("a Hub address has no valid port") from None
    return parts.scheme, parts.hostname, port


def _repeated(what: str, once: Callable[[], bytes]) -> bytes:
    number = 0
    while True:
        try:
            return once()
        except BrokenError as error:
            number += 1
            if number >= MAX_IN_A_ROW:
                raise unreachable(what, str(error)) from None
            _pause(number)


def _pause(number: int) -> None:
    time.sleep(PAUSE_SECONDS * 2 ** (number - 1))
