"""Values of `--speculative-config` as vLLM reads them: its configuration takes "7" and 7.0 for 7, and "true" for true.

vLLM's SpeculativeConfig is a Pydantic dataclass in the lax mode (vLLM 0.33 config/speculative.py; table of conversions
in Pydantic's documentation). A rule that looked for the JSON type alone would call a launch wrong that starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WHOLE = frozenset({
    *("num_speculative_tokens", "draft_tensor_parallel_size", "max_model_len", "dspark_draft_topk", "fly_window_size"),
    *("xpress_topc", "tensor_parallel_size"),
})  # fmt: skip
_FLAGS = frozenset({
    *("parallel_drafting", "enable_adaptive_verification", "use_local_argmax_reduction", "use_heterogeneous_vocab"),
    "disable_padded_drafter_batch",
})  # fmt: skip
_NUMBERS = frozenset({"synthetic_acceptance_length"})
_INTEGER = re.compile(r"[+-]?\d(_?\d){0,17}(\.0+)?")
_TRUE = frozenset({"1", "t", "true", "y", "yes", "on"})
_FALSE = frozenset({"0", "f", "false", "n", "no", "off"})


def read_lax(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with values as vLLM takes them; one that it refuses stays as it is."""
    return {name: _read(name, value) for name, value in keys.items()}


def _read(name: str, value: Any) -> Any:
    if name in _WHOLE:
        return as_whole(value)
    if name in _FLAGS:
        return as_flag(value)
    if name in _NUMBERS:
        return as_number(value)
    if name == "synthetic_acceptance_rates" and isinstance(value, list):
        return [as_number(item) for item in value]
    if name == "num_speculative_tokens_per_batch_size" and isinstance(value, list):
        return [[as_whole(item) for item in row] if isinstance(row, list) else row for row in value]
    return value


def as_whole(value: Any) -> Any:
    """Return a whole number as vLLM takes it; what it refuses stays as it is."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value.strip().partition(".")[0].replace("_", ""))
    return value


def as_flag(value: Any) -> Any:
    """Return true or false as vLLM takes them; what it refuses stays as it is."""
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    return value


def as_number(value: Any) -> Any:
    """Return a number as vLLM takes it; what it refuses stays as it is."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
