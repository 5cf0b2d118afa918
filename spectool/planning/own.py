"""What of a launch the user's own vLLM flags decide already: theirs win, and the plan is made around them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from spectool.errors import UsageError
from spectool.planning import flags

_INTEGERS = {
    "tensor_parallel": ("--tensor-parallel-size", "-tp"),
    "pipeline_parallel": ("--pipeline-parallel-size", "-pp"),
    "data_parallel": ("--data-parallel-size", "-dp"),
    "length": ("--max-model-len",),
    "sequences": ("--max-num-seqs",),
    "batched_tokens": ("--max-num-batched-tokens",),
    "block": ("--block-size",),
    "kv_bytes": ("--kv-cache-memory-bytes",),
}
_OTHERS = (
    "--gpu-memory-utilization",
    "--kv-cache-dtype",
    "--enable-prefix-caching",
    "--no-enable-prefix-caching",
    "--async-scheduling",
    "--no-async-scheduling",
    "--language-model-only",
    "--enable-dbo",
    "--enable-expert-parallel",
    "--no-enable-expert-parallel",
    "--reasoning-parser",
    "--tool-call-parser",
    "--enable-auto-tool-choice",
    "--hf-overrides",
)
# Flags that change weights or caches in ways the planner does not count.
_UNCOUNTED = (
    "--cpu-offload-gb",
    "--decode-context-parallel-size",
    "--disable-hybrid-kv-cache-manager",
    "--enable-lora",
    "--kv-cache-dtype-skip-layers",
    "--mamba-cache-mode",
    "--num-gpu-blocks-override",
    "--prefill-context-parallel-size",
    "--quantization",
)
_SHORT = {"-ep": "--enable-expert-parallel", "-dcp": "--decode-context-parallel-size", "-q": "--quantization"}
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NUMBER = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<suffix>[kKmMgGtT]?)")


@dataclass(frozen=True, slots=True)
class Own:
    """The user's figures; None where the plan is free. Lengths and budgets are in tokens, `kv_bytes` in bytes."""

    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    length: int | None = None
    sequences: int | None = None
    batched_tokens: int | None = None
    block: int | None = None
    kv_bytes: int | None = None
    utilization: float | None = None
    kv_dtype: str | None = None
    draft_kv_dtype: str | None = None
    draft_backend: str | None = None
    prefix_caching: bool = True
    async_scheduling: bool = True
    language_only: bool = False
    micro_batches: bool = False
    expert_parallel: bool = False
    names: frozenset[str] = frozenset()
    """Every flag given, on the command line or in the `--config` file, by its full name where the planner knows it."""

    @property
    def uncounted(self) -> list[str]:
        """The flags given that change the memory in ways the planner does not count."""
        return sorted(self.names.intersection(_UNCOUNTED))


def own_flags(
    extra: Sequence[str], file_keys: Mapping[str, str] | None = None, speculative: Mapping[str, object] | None = None
) -> Own:
    """Read the user's flags; the command line wins over the `--config` file, as in vLLM.

    Args:
        extra: the words after `--`.
        file_keys: top-level keys of the `--config` file, in dashes (`flags.top_level`).
        speculative: the user's keys of the speculative configuration.

    Raises:
        UsageError: a value that the plan needs is no number, or out of range.

    """
    words = _full([*_as_words(file_keys or {}), *extra])
    found: dict[str, int | None] = {}
    for field, names in _INTEGERS.items():
        text = flags.value_of(words, *names)
        found[field] = None if text is None else _integer(names[0], text)
    share = flags.value_of(words, "--gpu-memory-utilization")
    return Own(
        **found,
        utilization=None if share is None else _share(share),
        kv_dtype=flags.value_of(words, "--kv-cache-dtype"),
        draft_kv_dtype=_word(speculative, "kv_cache_dtype"),
        draft_backend=_word(speculative, "attention_backend"),
        prefix_caching=_last(words, "--enable-prefix-caching", "--no-enable-prefix-caching"),
        async_scheduling=_last(words, "--async-scheduling", "--no-async-scheduling"),
        language_only=flags.has(words, "--language-model-only"),
        micro_batches=flags.has(words, "--enable-dbo"),
        expert_parallel=flags.has(words, "--enable-expert-parallel")
        and _last(words, "--enable-expert-parallel", "--no-enable-expert-parallel"),
        names=frozenset(flag.name for flag in flags.given(words)),
    )


def _word(keys: Mapping[str, object] | None, name: str) -> str | None:
    value = (keys or {}).get(name)
    return value if isinstance(value, str) else None


def _full(words: Sequence[str]) -> list[str]:
    """Spell out abbreviated flags that the planner looks at: vLLM's parser takes any unambiguous beginning."""
    known = [name for names in _INTEGERS.values() for name in names if name.startswith("--")]
    known += [*_OTHERS, *_UNCOUNTED]
    spelled = list(words)
    for flag in flags.given(words):
        matches = [_SHORT[flag.name]] if flag.name in _SHORT else [name for name in known if name.startswith(flag.name)]
        if flag.name not in known and len(matches) == 1:
            _, equals, value = words[flag.start].partition("=")
            spelled[flag.start] = f"{matches[0]}{equals}{value}"
    return spelled


def _as_words(keys: Mapping[str, str]) -> list[str]:
    """Write a flag file's keys as vLLM does: true is the bare flag, false the one with `no-`."""
    words = []
    for key, value in keys.items():
        if value.lower() == "false":
            words.append(f"--no-{key}")
        else:
            words += [f"--{key}"] if value.lower() == "true" else [f"--{key}={value}"]
    return words


def _last(words: Sequence[str], yes: str, no: str) -> bool:
    """Return which of two opposite flags came last; yes where neither came."""
    given = [flag.name for flag in flags.given(words) if flag.name in (yes, no)]
    return not given or given[-1] == yes


def _integer(name: str, text: str) -> int | None:
    """Read a number as vLLM does: 32k is 32,000, 32K is 32,768. `auto` and -1 leave the length to vLLM: None."""
    if name == "--max-model-len" and text in ("auto", "-1"):
        return None
    match = _NUMBER.fullmatch(text)
    number = Decimal(match["number"]) * _SUFFIXES.get(match["suffix"], 1) if match else Decimal(0)
    if number < 1 or number != int(number):
        raise UsageError(f"{name} {text}: a whole number from 1 up is needed")
    return int(number)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"--gpu-memory-utilization {text}: a share above 0 and at most 1 is needed")
    return share
