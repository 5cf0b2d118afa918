"""Take secrets out of whatever is shown: command lines, JSON values, log lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

MASK = "***"
# Words of a flag, key or variable name that make its value a secret. "token" is none of them: it counts as the last
# word only (hf_token), because of mask_token_id and --long-prefill-token-threshold.
_WORDS = frozenset({"secret", "password", "passwd", "passphrase", "credential", "credentials", "apikey"})
_PAIRS = frozenset({("api", "key"), ("access", "key"), ("secret", "key"), ("private", "key"), ("account", "key")})
_URL_LOGIN = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
_JSON_SECRET = re.compile(  # for what is nearly JSON: a key, then a quoted or a bare value
    r"""(?P<head>["']?(?P<name>[\w.-]+)["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}"']+)"""
)
# Shorter values are ordinary words ("EMPTY", "abc"): masking them everywhere would garble a log.
_SHORTEST_VALUE = 6


def is_secret_name(name: str) -> bool:
    """Say whether a flag, JSON key or environment variable holds a secret, by the words of its name."""
    # "HF_TOKEN" splits into HF and TOKEN, "hfToken" into hf and Token.
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Za-z][a-z]*", name)]
    if not words:
        return False
    return words[-1] == "token" or not _WORDS.isdisjoint(words) or not _PAIRS.isdisjoint(pairwise(words))


def redact_argv(argv: Sequence[str]) -> list[str]:
    """Return the arguments with the values of secret flags replaced, also inside JSON values and `--flag=value`.

    A secret flag may take several values (`--api-key A B`): everything up to the next flag is replaced.
    """
    shown: list[str] = []
    hiding = False
    for word in argv:
        if word.startswith("-") and len(word) > 1:
            flag, equals, value = word.partition("=")
            hiding = is_secret_name(flag)
            if equals:
                shown.append(f"{flag}={MASK if hiding else redact_text(value)}")
            else:
                shown.append(flag)
        else:
            shown.append(MASK if hiding else redact_text(word))
    return shown


def redact_text(text: str) -> str:
    """Return a value with secrets replaced: JSON objects by key, logins inside URLs."""
    if text.lstrip().startswith(("{", "[")):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            text = _JSON_SECRET.sub(_mask_pair, text)
        else:
            cleaned = redact_json(data)
            if cleaned != data:
                text = json.dumps(cleaned)
    return _URL_LOGIN.sub(rf"\g<scheme>{MASK}@", text)


def redact_json(value: Any, *, secret: bool = False) -> Any:
    """Return a copy of parsed JSON in which the values of secret keys are replaced."""
    if isinstance(value, dict):
        return {key: redact_json(item, secret=secret or is_secret_name(str(key))) for key, item in value.items()}
    if isinstance(value, list):
        return [redact_json(item, secret=secret) for item in value]
    return MASK if secret and value is not None else value


def secret_values(argv: Sequence[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Collect the secrets themselves, to recognise them in an engine's log."""
    found = {value for name, value in environ.items() if is_secret_name(name)}
    masked = redact_argv(argv)
    for word, shown in zip(argv, masked, strict=True):
        if word == shown:
            continue
        flag, equals, value = word.partition("=")
        found.update(_hidden(value if equals and flag.startswith("-") else word))
    return frozenset(value for value in found if len(value) >= _SHORTEST_VALUE)


def hide(text: str, secrets: Iterable[str]) -> str:
    """Replace known secrets wherever they stand in a text, the longest first."""
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def _hidden(text: str, *, secret: bool = True) -> set[str]:
    """Return the secret strings in a value: all of a plain one, those under secret keys in JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {text}
    return _strings(data, secret=secret and not isinstance(data, dict | list))


def _strings(value: Any, *, secret: bool) -> set[str]:
    if isinstance(value, dict):
        items = [_strings(item, secret=secret or is_secret_name(str(key))) for key, item in value.items()]
        return set().union(*items)
    if isinstance(value, list):
        return set().union(*[_strings(item, secret=secret) for item in value])
    return {str(value)} if secret and value is not None else set()


def _mask_pair(match: re.Match[str]) -> str:
    return f"{match['head']}{MASK}" if is_secret_name(match["name"]) else match[0]
