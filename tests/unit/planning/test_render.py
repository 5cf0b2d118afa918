from __future__ import annotations

import shlex

from spectool.planning.command import Flag
from spectool.planning.render import as_json, as_shell, reasons

PARTS = [
    Flag(("/opt/my vllm/vllm", "serve", "org/name"), "the engine"),
    Flag(("--speculative-config", '{"model": "it\'s"}'), "the drafter"),
    Flag(("--api-key", "secret-value", "--port", "8000"), "yours"),
]


def test_shell_text_reads_back_as_the_command() -> None:
    text = as_shell(PARTS, {"A": "x y", "HF_TOKEN": "hf_secret"})
    assert text.splitlines()[0] == "A='x y' HF_TOKEN='***' '/opt/my vllm/vllm' serve org/name \\"
    words = shlex.split(text.replace("\\\n", " "))
    assert words == ["A=x y", "HF_TOKEN=***", *PARTS[0].argv, *PARTS[1].argv, "--api-key", "***", "--port", "8000"]


def test_json_holds_argv_env_and_reasons() -> None:
    assert as_json(PARTS, {"HF_TOKEN": "hf_secret"}) == {
        "argv": [*PARTS[0].argv, *PARTS[1].argv, "--api-key", "***", "--port", "8000"],
        "env": {"HF_TOKEN": "***"},
        "flags": [
            {"flag": "'/opt/my vllm/vllm' serve org/name", "reason": "the engine"},
            {"flag": shlex.join(PARTS[1].argv), "reason": "the drafter"},
            {"flag": "--api-key '***' --port 8000", "reason": "yours"},
        ],
    }
    assert reasons(PARTS)[1] == "--speculative-config: the drafter"
