"""What a Hub's answer means to the user. No message repeats a header that was sent, a query or a server's page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from spectool.errors import SourceError
from spectool.hub.reference import Reference

LOGIN = "Set HF_TOKEN, or log in once with: hf auth login"
OFFLINE = (
    "No folder of this name is here, so the Hub was asked. Repeat when the network is back. With HF_HUB_OFFLINE=1 "
    "spectool uses what was fetched before; a verifier is then "
    "known by its name alone where nothing was."
)


class NotFoundError(SourceError):
    """There is no such repository, or none that may be seen."""


class BrokenError(Exception):
    """The connection or the server failed in a way that may pass; the message says how."""


def refused(
    ref: Reference, status: int, headers: Mapping[str, str], *, file: str | None, authorised: bool
) -> Exception:
    """Return the error for a status that is no success: to be raised, or to be tried again (`BrokenError`).

    Args:
        ref: the repository asked for.
        status: the HTTP status.
        headers: of the answer; the Hub's `X-Error-Code` tells what a status alone does not (huggingface_hub,
            `utils/_http.py`, `hf_raise_for_status`).
        file: the file asked for, where it was one.
        authorised: whether a token was sent.

    """
    code = headers.get("x-error-code", "")
    page = f"{shown_endpoint()}/{ref.repo}"
    what = f"{ref.repo}" if file is None else f"{ref.repo}: {file}"
    if status in {408, 429, 500, 502, 503, 504}:
        return BrokenError(f"the Hub answers with status {status}" + (" (too many requests)" if status == 429 else ""))
    if code == "GatedRepo":
        return SourceError(
            f"{what} is gated: its terms have to be accepted by the account that reads it",
            hint=f"Accept them at {page}. " + ("The token in use has no access." if authorised else LOGIN),
        )
    if code == "RevisionNotFound":
        return SourceError(f"{ref.repo} has no revision {ref.revision or 'main'}", hint=f"See {page}/commits/main")
    if code == "EntryNotFound" or (status == 404 and file is not None and code != "RepoNotFound"):
        return SourceError(f"{ref.repo} has no file {file or 'of that name'}")
    if status == 401 and code != "RepoNotFound" and authorised:
        return SourceError(f"{what}: the Hub does not accept the token in use (status 401)", hint=LOGIN)
    if status in {401, 404}:
        seen = "the token in use cannot see it" if authorised else "it is private and no token was sent"
        return NotFoundError(
            f"{ref.repo}: there is no such folder here, and on {host()} no such repository, or {seen} "
            f"(status {status})",
            hint=f"Check the name. {LOGIN}" if not authorised else "Check the name, and what the token may read.",
        )
    if status == 403:
        return SourceError(
            f"{what}: the Hub forbids access (status 403)",
            hint=f"See {page}. " + ("The token in use lacks the permission." if authorised else LOGIN),
        )
    if status == 416:
        return SourceError(
            f"{what}: the file is shorter than the Hub says", hint="Repeat; if it stays, tell its owner."
        )
    return SourceError(f"{what}: the Hub answers with status {status}")


def unreachable(what: str, why: str) -> SourceError:
    """Return the error for a Hub that could not be reached, or broke off too often."""
    return SourceError(f"{what}: cannot be read from {host()}: {why}", hint=OFFLINE)


def endpoint() -> str:
    """Return the Hub's address: `HF_ENDPOINT`, else the public one."""
    from huggingface_hub import constants  # noqa: PLC0415 - imported where needed: start-up stays quick

    return constants.ENDPOINT


def shown_endpoint() -> str:
    """Return the Hub's address as messages name it."""
    return f"{urlsplit(endpoint()).scheme or 'https'}://{host()}"


def host() -> str:
    """Return the Hub's host as messages name it, without a user name that an address may hold."""
    parts = urlsplit(endpoint())
    try:
        return parts.hostname + (f":{parts.port}" if parts.port else "") if parts.hostname else "HF_ENDPOINT"
    except ValueError:
        return "HF_ENDPOINT"


def transport_error() -> type[Exception]:
    """Return the base of the HTTP library's errors; huggingface_hub changed that library from one to another."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 - as above

    return next(base for base in HfHubHTTPError.__mro__ if base.__name__ == "HTTPError")


def describe(error: BaseException) -> str:
    """Say what broke, by the error's kind: its own text may hold a signed address."""
    name = type(error).__name__
    known: dict[str, str] = {
        "ConnectError": "no connection",
        "ConnectTimeout": "no connection in time",
        "ReadTimeout": "no answer in time (HF_HUB_DOWNLOAD_TIMEOUT is in seconds)",
        "WriteTimeout": "no answer in time (HF_HUB_DOWNLOAD_TIMEOUT is in seconds)",
        "ReadError": "the connection broke",
        "RemoteProtocolError": "the answer was cut off",
        "TooManyRedirects": "too many redirects",
        "OfflineModeIsEnabled": "HF_HUB_OFFLINE is set",
    }
    return known.get(name, name)


def as_headers(response: Any) -> Mapping[str, str]:
    """Return the headers of an answer with small names."""
    return {str(key).lower(): str(value) for key, value in response.headers.items()}
