"""What of a launch the user's own vLLM flags decide already: theirs win, and the plan is made around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectool.errors import UsageError
from spectool.planning import flags
from spectool.planning.parser import parse, table
from spectool.planning.parsing_values import length, shortened

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
    """Every flag given, on the command line or in the `--config` file, by its full name; of opposites the last."""

    @property
    def uncounted(self) -> list[str]:
        """The flags given that change the memory in ways the planner does not count."""
        return sorted(self.names.intersection(_UNCOUNTED))


def own_flags(
    extra: Sequence[str],
    file_keys: Mapping[str, str] | None = None,
    speculative: Mapping[str, object] | None = None,
    version: str | None = None,
) -> Own:
    """Read the user's flags; the command line wins over the `--config` file, as in vLLM.

    Args:
        extra: the words after `--`.
        file_keys: top-level keys of the `--config` file (`flag_file.keys_of`).
        speculative: the user's keys of the speculative configuration.
        version: the vLLM release whose flags they are; the newest known one where none is named.

    Raises:
        UsageError: a value that the plan needs is no number, or out of range.

    """
    words = parse([*_as_words(file_keys or {}), *extra], table(version)).words
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
        prefix_caching=not flags.has(words, "--no-enable-prefix-caching"),
        async_scheduling=not flags.has(words, "--no-async-scheduling"),
        language_only=flags.has(words, "--language-model-only"),
        micro_batches=flags.has(words, "--enable-dbo"),
        expert_parallel=flags.has(words, "--enable-expert-parallel"),
        names=frozenset(flag.name for flag in flags.given(words)),
    )


def _word(keys: Mapping[str, object] | None, name: str) -> str | None:
    value = (keys or {}).get(name)
    return value if isinstance(value, str) else None


def _as_words(keys: Mapping[str, str]) -> list[str]:
    """Write a flag file's keys as vLLM does: true is the bare flag, false the one with `no-`."""
    words = []
    for key, value in keys.items():
        if value.lower() == "false":
            words.append(f"--no-{key}")
        else:
            words += [f"--{key}"] if value.lower() == "true" else [f"--{key}={value}"]
    return words


def _integer(name: str, text: str) -> int | None:
    """Read a number as vLLM does: 32k is 32,000, 32K is 32,768. `auto` and -1 leave the length to vLLM: None."""
    number = length(text)
    if name == "--max-model-len" and number == -1:
        return None
    if name == "--kv-cache-memory-bytes" and number == 0:
        return None  # as if it were not given (vllm/v1/worker/gpu_worker.py)
    if number is None or number < 1:
        raise UsageError(f"{name} {shortened(text)}: a whole number from 1 up is needed")
    return number


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"--gpu-memory-utilization {text}: a share above 0 and at most 1 is needed")
    return share
