"""What the help says of each command in a line, and the commands people type first."""

from __future__ import annotations

BRIEF = {
    "inspect": "Say what a drafter is, or which ones a verifier has.",
    "convert": "Convert a drafter, exactly or not at all.",
    "validate": "Check a drafter and its verifier before a start.",
    "serve": "Plan, start and watch vLLM with a drafter.",
    "probe": "Measure what is accepted.",
    "schema": "Show, check and upgrade configs and schemas.",
    "rule": "Explain a finding.",
    "env": "List versions, engine and GPUs for a bug report.",
}
EXAMPLES = {
    "inspect": (
        "spectool inspect z-lab/Qwen3-8B-DFlash-b16",
        "spectool inspect Qwen/Qwen3-8B        which drafters are known for it?",
    ),
    "convert": (
        "spectool convert z-lab/Qwen3-8B-DFlash-b16 OUT --verifier Qwen/Qwen3-8B",
        "spectool convert DRAFTER OUT --verifier V --set speculative_tokens=5",
    ),
    "validate": (
        "spectool validate DRAFTER --verifier V",
        "spectool validate DRAFTER --verifier V --engine 'vllm>=0.26'",
        "spectool validate DRAFTER --verifier V --gpus a100-80gb:2 -- --max-model-len 8192",
    ),
    "serve": (
        "spectool serve DRAFTER --verifier V --gpus a100-80gb:2 --dry-run",
        "spectool serve DRAFTER --verifier V -- --port 8001",
        "spectool serve serve.yaml --emit k8s",
    ),
    "probe": (
        "spectool probe DRAFTER --verifier V --prompts prompts.txt",
        "spectool probe DRAFTER --url http://localhost:8000",
    ),
    "rule": ("spectool rule ATT001",),
}


def epilog(name: str) -> str | None:
    """Return a command's examples as its help prints them: line by line, as they are."""
    lines = EXAMPLES.get(name)
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else None
