"""Resolve one field: `--set`, then the dialect's keys, then what absence means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectool.dialects.predicates import as_text
from spectool.dialects.record import Assumption, Evidence, Gap, Question
from spectool.errors import UsageError
from spectool.formats.dialect import Source
from spectool.formats.lookup import MISSING, is_int, is_number, lookup

# What `--set` understands, and the type of the answer.
SETTINGS: dict[str, type] = {
    "speculative_tokens": int,
    "mask_token_id": int,
    "block_size": int,
    "sample_from_anchor": bool,
    "slot_layout": str,
    "aux_layer_convention": str,
    "verifier": str,
    "causal": bool,
    "rope.partial": float,
    "rope.theta": float,
    "rope.attention_factor": float,
    "embedding_scale": float,
    "logit_scale": float,
    "value_scale": float,
    # Where the drafter lies in something bigger (`spectool.dialects.within`).
    "tensors_under": str,
    "config_under": str,
}


def parse_setting(key: str, text: str) -> Any:
    """Turn the text of `--set KEY=TEXT` into a value.

    Raises:
        UsageError: the key is unknown, or the text is no value of its type.

    """
    if key not in SETTINGS:
        raise UsageError(f"--set does not know {key!r}", hint=f"Known keys: {', '.join(SETTINGS)}.")
    kind = SETTINGS[key]
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        value = kind(text)
    except (KeyError, ValueError):
        wanted = {int: "a whole number", bool: "true or false", float: "a number"}[kind]
        raise UsageError(f"--set {key}={text}: {key} is {wanted}") from None
    choices = {"slot_layout": ("anchor-first", "bonus-anchor"), "aux_layer_convention": ("input", "output")}
    if key in choices and value not in choices[key]:
        raise UsageError(f"--set {key}={text}: {key} is {' or '.join(choices[key])}")
    return value


class Resolver:
    """Reads fields of one folder and notes where each value came from."""

    def __init__(self, config: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self.config = config
        self.settings = settings
        self.evidence: dict[str, Evidence] = {}
        self.assumptions: list[Assumption] = []
        self.questions: list[Question] = []
        self.gaps: list[Gap] = []

    def value(self, field: str, source: Source | None, *, setting: str | None = None) -> Any:
        """Return the field's value, or None after noting a gap or a question.

        Named defaults (`default = ...`) are left to the caller: it gets None and no gap is noted.
        """
        key = setting or field
        found = [] if source is None else self._stated(source)
        if key in self.settings:
            answer = self.settings[key]
            if found and found[0][1] != answer:
                self.assume(field, str(answer), f"--set {key} overrides {found[0][0]} {as_text(found[0][1])}")
            return self.note(field, answer, f"--set {key}")
        if source is None:
            return None
        if source.const is not None:
            return self.note(field, source.const, "convention")
        if found:
            return self._one_of(field, source, found)
        if source.absent is not None:
            return self.note(field, source.absent, "absent")
        if source.ask:
            self.questions.append(Question(key, source.why, source.plausible))
        elif source.default is None and not source.optional:
            self.gaps.append(Gap(field, "missing", f"{' or '.join(source.from_)} is missing"))
        return None

    def _stated(self, source: Source) -> list[tuple[str, Any]]:
        return [(path, value) for path in source.from_ if (value := lookup(self.config, path)) is not MISSING]

    def _one_of(self, field: str, source: Source, found: list[tuple[str, Any]]) -> Any:
        path, value = found[0]
        others = [(other, theirs) for other, theirs in found[1:] if theirs != value]
        if others and source.conflict == "error":
            other, theirs = others[0]
            self.gaps.append(Gap(field, "conflict", f"{path} is {as_text(value)} and {other} is {as_text(theirs)}"))
        if source.values:
            text = as_text(value)
            if text not in source.values:
                self.gaps.append(Gap(field, "malformed", f"{path} is {text}, not {' or '.join(source.values)}"))
                return None
            value = source.values[text]
        return self.note(field, value, path)

    def integer(self, field: str, source: Source | None, *, setting: str | None = None) -> int | None:
        """Return the field as a whole number; numbers in quotes are accepted, as early P-EAGLE files have them."""
        value = self.value(field, source, setting=setting)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
        if value is None or is_int(value):
            return value
        self._malformed(field, value, "a whole number")
        return None

    def number(self, field: str, source: Source | None, default: float) -> float:
        """Return the field as a number."""
        value = self.value(field, source)
        if value is None:
            return default
        if not is_number(value):
            self._malformed(field, value, "a number")
            return default
        return float(value)

    def flag(self, field: str, source: Source | None, *, default: bool = False) -> bool:
        """Return the field as true or false."""
        value = self.value(field, source)
        if value is None:
            return default
        if not isinstance(value, bool):
            self._malformed(field, value, "true or false")
            return default
        return value

    def _malformed(self, field: str, value: object, wanted: str) -> None:
        where = self.evidence[field].where if field in self.evidence else field
        self.gaps.append(Gap(field, "malformed", f"{where} is {value!r}, not {wanted}"))

    def note(self, field: str, value: Any, where: str) -> Any:
        """Record where a value came from and return it."""
        self.evidence[field] = Evidence(field, value, where)
        return value

    def assume(self, field: str, value: str, why: str) -> None:
        """Record an assumption."""
        self.assumptions.append(Assumption(field, value, why))
