"""vLLM's own flag file: `vllm serve --config FILE`."""

from __future__ import annotations

import json
import re
from typing import Any

from spectool.emit.launch import Launch, verifier_word
from spectool.emit.yaml_out import document
from spectool.errors import UsageError
from spectool.planning import flags

# A file has long names only (vllm/utils/argparse_utils.py, load_config_file; vllm/engine/arg_utils.py).
_LONG = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-dpn": "data-parallel-rank",
    "-dpr": "data-parallel-start-rank",
    "-dpl": "data-parallel-size-local",
    "-dpa": "data-parallel-address",
    "-dpp": "data-parallel-rpc-port",
    "-dpb": "data-parallel-backend",
    "-dph": "data-parallel-hybrid-lb",
    "-dpe": "data-parallel-external-lb",
    "-dcp": "decode-context-parallel-size",
    "-pcp": "prefill-context-parallel-size",
    "-ep": "enable-expert-parallel",
    "-n": "nnodes",
    "-r": "node-rank",
    "-q": "quantization",
    "-cc": "compilation-config",
    "-ac": "attention-config",
}


def vllm_config(launch: Launch) -> str:
    """Return the file: the model and every flag by its long name, JSON as a mapping."""
    keys: dict[str, Any] = {"model": verifier_word(launch)}
    words = [word for part in launch.parts[1:] for word in part.argv]
    starts = [flag.start for flag in flags.given(words)]
    for start, stop in zip(starts, [*starts[1:], len(words)], strict=True):
        name, equals, value = words[start].partition("=")
        values = [value] if equals else words[start + 1 : stop]
        keys[_key(flags.normal(name))] = _value(values)
    comments = launch.comments()
    if launch.nodes > 1:
        comments.append(
            f"On each of {launch.nodes} machines: --nnodes {launch.nodes} --node-rank N --master-addr A; "
            "--headless from 1 on."
        )
    return document(keys, comments=comments)


def _key(name: str) -> str:
    if name.startswith("--") and "." not in name:
        return name.removeprefix("--")
    if name not in _LONG:
        raise UsageError(f"{name} has no form in a flag file", hint="Write the flag by its long name, a value as JSON.")
    return _LONG[name]


def _value(values: list[str]) -> Any:
    if not values:
        return True
    if len(values) > 1:
        return values
    text = values[0]
    if text.startswith("{"):
        return json.loads(text)
    return int(text) if re.fullmatch(r"0|-?[1-9]\d{0,15}", text) else text
