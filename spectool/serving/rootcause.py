"""Find in an engine's log why it died: the first line that says it, what it means and what to do.

vLLM ends with "Engine core initialization failed. See root cause above", after several tracebacks of the processes that
noticed. The root cause is the first error in the log, mostly of a worker.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache

from spectool.resources import package_data

# "(Worker pid=4891) ERROR 11-29 19:14:25 [multiproc_executor.py:953] ", each part optional.
_HEAD = re.compile(
    r"^(?:\([\w -]+ pid=\d+\)\s)?(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s[\d-]+\s[\d:]+\s\[[^\]]*\]\s?)?"
)
# An exception's own line: "ValueError: ...", "torch.OutOfMemoryError: ...", pydantic's "  Value error, ...".
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Timeout)\b(?::|$)|\s{2}Value error, )")
# One of pydantic's: "  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=1, input_type=int]",
# below the line that names the key.
_DETAIL = re.compile(r"^\s{2}(?!Value error, )\S.*\[type=\w+, input_value=")
# Which of vLLM's configurations pydantic checked: the lines below hold for it.
_CHECKED = re.compile(r"validation errors? for (\w+)")
# Said by processes that only noticed another one's death.
_ECHO = re.compile(
    r"Engine core initialization failed|initialization failed due to an exception|EngineDeadError"
    r"|cancelled|validation errors? for |WorkerProc hit an exception"
)
# The API server says this when its engine is gone, stops in good order, and exits with 0 (seen with 0.32 after a
# kill -9 of the engine core).
_DEAD = re.compile(r"EngineDeadError|engine core exited unexpectedly|[Ee]ngine core proc\S* .*died unexpectedly")


@dataclass(frozen=True)
class RootCause:
    """Why an engine died.

    Attributes:
        line: what the log says, without its prefix.
        cause: what that means; None where spectool does not know the message.
        fix: what to do; None likewise.
        rule: code of the rule that says it before a start; None where there is none.

    """

    line: str
    cause: str | None = None
    fix: str | None = None
    rule: str | None = None


@dataclass(frozen=True)
class _Known:
    pattern: re.Pattern[str]
    cause: str
    fix: str
    rule: str | None
    weak: bool


class RootCauseFinder:
    """Reads a log line by line and remembers the first cause in it.

    Attributes:
        engine_died: whether the server said that its engine died under it.

    """

    def __init__(self) -> None:
        self._known: RootCause | None = None
        self._weak: RootCause | None = None
        self._unknown: RootCause | None = None
        self._before = ""
        self._checked = ""
        self.engine_died = False

    def feed(self, line: str) -> None:
        """Take the next line of the log."""
        self.engine_died = self.engine_died or _DEAD.search(line) is not None
        if self._known is not None:
            return
        text, before = message_of(line), self._before
        self._before = text or ""
        if text is not None and (checked := _CHECKED.search(text)):
            self._checked = f"{checked[1]}: "
        if text is None or _ECHO.search(text):
            return
        detail = _DETAIL.match(text) is not None
        if detail and before and not _ECHO.search(before):
            text = f"{before.strip()}: {text.strip()}"
        where = self._checked if detail or text.startswith("  Value error, ") else ""
        for entry in known_errors():
            if entry.pattern.search(where + text):
                cause = RootCause(text.strip(), entry.cause, entry.fix, entry.rule)
                if not entry.weak:
                    self._known = cause
                elif self._weak is None:
                    self._weak = cause
                return
        if self._unknown is None and (detail or _EXCEPTION.match(text)):
            self._unknown = RootCause(text.strip())

    @property
    def found(self) -> RootCause | None:
        """The first known cause; else the first weak one; else the first exception; else None."""
        return self._known or self._weak or self._unknown


def message_of(line: str) -> str | None:
    """Return a log line without its prefix, or None for what is no error: other levels, source lines of a traceback."""
    match = _HEAD.match(line)
    text = line[match.end() :] if match else line
    if match and match["level"] in ("DEBUG", "INFO", "WARNING"):
        return None
    if text.startswith((" " * 4, '  File "')):
        return None
    return text


@cache
def known_errors() -> tuple[_Known, ...]:
    """Return the patterns of `spectool/data/engine-errors.toml`, in order."""
    table = tomllib.loads(package_data("engine-errors.toml").read_text(encoding="utf-8"))
    return tuple(
        _Known(re.compile(entry["pattern"]), entry["cause"], entry["fix"], entry.get("rule"), entry.get("weak", False))
        for entry in table["error"]
    )
