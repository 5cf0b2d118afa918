# ruff: noqa: E501 - tables: one launch, one line
"""Launches that vLLM's configuration takes, run to the end on the CPU: what spectool says acts later must be seen then."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch_faults import GREEDY, V2, alone, sc, schedule
from launches import SERVED, VERSION, compose
from mutations import NATIVE, PAIRS, VERIFIER, Change, both, folder, nothing, put
from oracle import Verdict, judge

from spectool import api

Seen = Callable[[Verdict], bool]
ARGMAX = {"use_local_argmax_reduction": True}
TOP_IDS = both(put("dflash_config.target_layer_ids", ...), put("target_layer_ids", [0, 2, 4]))
TIGHT = ("--max-num-seqs=4", "--max-num-batched-tokens")


def stops(stage: str, message: str) -> Seen:
    """The engine ends there, saying that."""
    return lambda verdict: (
        verdict["stage"] == stage and bool(re.search(message, f"{verdict['root']} {verdict['error']}"))
    )


def runs(**extra: Any) -> Seen:
    """The engine runs, and reports these values."""
    return lambda verdict: verdict["ok"] and all(verdict["extra"].get(name) == value for name, value in extra.items())


def drafts(verdict: Verdict) -> bool:
    """The engine runs and drafts."""
    return verdict["ok"] and verdict["extra"].get("drafts", 0) > 0


# (rule or none, what, method, words, runner, the drafter's change, what must be seen, in words, the check)
RUNS: list[tuple[str, str, str, tuple[str, ...], str, Change, str, Seen]] = [
    ("RUN003", "logits processors", "dflash", (f"{V2}=0", "--logits-processors", "a:B"), "v1", nothing, "stops at load", stops("load", "logits processors")),
    ("RUN004", "aux layers at the top", "dflash", (f"{V2}=0",), "v1", TOP_IDS, "captures the default layers, two of six here, and stops at their width", stops("forward", "concatenated aux hidden features")),
    ("", "aux layers at the top", "dflash", (f"{V2}=1",), "v2", TOP_IDS, "captures the drafter's layers", runs(taps=[1, 3, 5])),
    ("SPC002", "not parallel", "peagle", sc(parallel_drafting=False), "v1", nothing, "drafts token by token", runs(parallel_drafting=False)),
    ("SPC002", "no method", "dflash", alone(num_speculative_tokens=7), "v1", nothing, "runs as draft_model", runs(method="draft_model")),
    ("ADV002", "argmax, sampled", "dflash", sc(**ARGMAX, draft_sample_method="probabilistic"), "v2", nothing, "stops at load", stops("load", "not compatible with draft_sample_method")),
    ("", "argmax, greedy", "dflash", sc(**ARGMAX), "v2", nothing, "drafts", drafts),
    ("ADV002", "argmax, sampled", "dspark", sc(**ARGMAX, draft_sample_method="probabilistic"), "v2", nothing, "stops at load", stops("load", "not compatible with draft_sample_method")),
    ("", "argmax, sampled", "peagle", sc(**ARGMAX, draft_sample_method="probabilistic"), "v1", nothing, "drafts", drafts),
    ("", "argmax, sampled on V1", "dflash", (f"{V2}=0", *sc(**ARGMAX, draft_sample_method="probabilistic")), "v1", nothing, "drafts", drafts),
    ("ADV003", "unpadded", "peagle", sc(disable_padded_drafter_batch=True), "v1", nothing, "stops at load", stops("load", "padded drafter batch")),
    ("ADV003", "unpadded", "dflash", (f"{V2}=0", *sc(disable_padded_drafter_batch=True)), "v1", nothing, "stops at load", stops("load", "padded drafter batch")),
    ("", "unpadded on V2", "dflash", sc(disable_padded_drafter_batch=True), "v2", nothing, "drafts", drafts),
    ("ADV004", "overlapping", "dflash", schedule([1, 8, 7], [8, 99, 3]), "v2", nothing, "stops at the scheduler", stops("forward", "non-overlapping")),
    ("", "a hole", "dflash", schedule([1, 8, 7], [20, 30, 3]), "v2", nothing, "drafts", drafts),
    ("BUD001", "no room to verify", "dflash", (*TIGHT, "8"), "v2", nothing, "drafts nothing", runs(drafts=0)),
    ("", "room for one", "dflash", (*TIGHT, "16"), "v2", nothing, "drafts", drafts),
    ("", "greedy drafts", "peagle", GREEDY, "v1", nothing, "drafts", drafts),
]  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """One launch that was run. `code` is the rule that must speak, empty for one that must be clean."""

    name: str
    code: str
    expected: str
    stage: str
    wrong: str


def run_launches(engine: str | Path, root: Path, only: str | None = None) -> list[Ran]:
    """Run them all, or those with a text in their name."""
    prepared = []
    for number, (code, what, method, words, runner, change, expected, seen) in enumerate(RUNS):
        name = f"run: {number} {code or 'clean'} {method}, {what}"
        if only is not None and only not in name:
            continue
        place = root / f"run-{number}"
        place.mkdir()
        drafter = PAIRS / NATIVE[method]
        if change is not nothing:
            drafter = folder(drafter, place / "d", change)
        flags, environment = compose(method, words, drafter, place)
        case = {"id": name, "argv": [str(VERIFIER), *flags], "runner": runner, "max_tokens": 4}
        prepared.append((name, code, method, words, drafter, expected, seen, case, environment))
    verdicts = judge(engine, [item[7] for item in prepared], root) if prepared else {}
    found = []
    for name, code, method, words, drafter, expected, seen, _, _ in prepared:
        verdict = verdicts[name]
        wrong = (
            ""
            if seen(verdict)
            else f"{expected} was expected; {verdict['stage']}: {verdict['root']} {verdict['extra']}"
        )
        found.append(Ran(name, code, expected, verdict["stage"], wrong or _said(method, words, drafter, code)))
    return found


def _said(method: str, words: Sequence[str], drafter: Path, code: str) -> str:
    settings = {"speculative_tokens": SERVED[method]["num_speculative_tokens"]} if method == "peagle" else None
    report = api.validate(str(drafter), verifier=str(VERIFIER), settings=settings, engine=VERSION, launch=words)
    codes = {finding.code for finding in report.findings if finding.severity == "error"}
    return "" if codes == ({code} if code else set()) else f"spectool says {', '.join(sorted(codes)) or 'nothing'}"


def runs_table(ran: Sequence[Ran]) -> list[str]:
    """Return the section of docs/conformance.md about them."""
    lines = [
        "",
        "What acts after the configuration, run to its end on the CPU:",
        "",
        "| launch | rule | in vLLM | seen |",
        "|---|---|---|---|",
    ]
    for item in ran:
        name = item.name.partition(" ")[2].partition(" ")[2].partition(" ")[2]
        lines.append(f"| {name} | {item.code or 'clean'} | {item.expected} | {'**no**' if item.wrong else 'yes'} |")
    return lines
