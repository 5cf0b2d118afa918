"""The faults of `third_faults`, put to spectool and run in vLLM: their drafts are held against the good pair's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launches import SERVED, VERSION
from mutations import VERIFIER, folder
from oracle import Case, Verdict, example_prompts, judge
from third_faults import APART, OTHER, SAME, STOPS, THIRD_FAULTS, Third

from spectool import api

Bases = Mapping[tuple[str, str], Path]
FIGURES = ("drafts", "accepted", "accepted_per_pos")


def laid(item: Third, base: Path, root: Path) -> tuple[Path, Path]:
    """Write the faulty pair; return drafter and verifier."""
    of_drafter = item.of == "drafter"
    changed = folder(base if of_drafter else VERIFIER, root, item.change)
    if item.files is not None:
        item.files(changed)
    verifier = VERIFIER if item.beside is None else folder(VERIFIER, root / "verifier", item.beside)
    return (changed, verifier) if of_drafter else (base, changed)


def said_of(item: Third, drafter: Path, verifier: Path) -> set[str]:
    """Return the codes spectool names, those it cannot decide too."""
    native = item.method == "peagle" and item.layout == "native"
    report = api.validate(
        str(drafter),
        verifier=str(verifier),
        settings={"speculative_tokens": 5} if native else None,
        engine=VERSION,
        weights=item.code.startswith("WGT"),
        launch=item.launch,
    )
    open_ = {unknown.code for unknown in report.unknowns} - {"BUD001"}  # a launch that names no GPU
    return {finding.code for finding in report.findings} | open_


@dataclass(frozen=True)
class Held:
    """What both said of a fault. `wrong` is empty where they agree."""

    item: Third
    codes: frozenset[str]
    stage: str
    figures: str
    wrong: str


def _case(name: str, method: str, drafter: Path, verifier: Path) -> Case:
    config: dict[str, Any] = {**SERVED[method], "model": str(drafter)}
    case = {"id": name, "verifier": str(verifier), "speculative_config": config, "max_tokens": 12}
    case |= {"runner": "v2" if method == "dspark" else "v1", "engine_args": {"max_num_batched_tokens": 64}}
    return case | {"prompts": example_prompts()[:2]}


def _figures(verdict: Verdict) -> list[Any]:
    return [verdict["extra"].get(name) for name in FIGURES]


def _seen(item: Third, verdict: Verdict, good: Verdict) -> str:
    """What vLLM did, in the words of the table."""
    if not verdict["ok"]:
        return STOPS
    if item.seen == APART:
        return APART if set(verdict["extra"]["shared"]) < set(good["extra"]["shared"]) else SAME
    return SAME if _figures(verdict) == _figures(good) else OTHER


def run_thirds(engine: str | Path, bases: Bases, root: Path, only: str | None = None) -> list[Held]:
    """Run them all, or those with a text in their name, the two model runners side by side."""
    chosen = [item for item in THIRD_FAULTS if only is None or only in item.name]
    methods = {item.method for item in chosen}
    cases = [
        _case(f"good {method}", method, bases["native", method], VERIFIER) for method in SERVED if method in methods
    ]
    pairs = {}
    for number, item in enumerate(chosen):
        pairs[item.name] = laid(item, bases[item.layout, item.method], root / str(number))
        cases.append(_case(item.name, item.method, *pairs[item.name]))

    def ask(runner: str) -> dict[str, Verdict]:
        place = root / runner
        place.mkdir(exist_ok=True)
        mine = [case for case in cases if case["runner"] == runner]
        return judge(engine, mine, place) if mine else {}

    with ThreadPoolExecutor(max_workers=2) as pool:
        first, second = pool.map(ask, ("v1", "v2"))
    verdicts, held = first | second, []
    for item in chosen:
        verdict, good = verdicts[item.name], verdicts[f"good {item.method}"]
        codes, seen = said_of(item, *pairs[item.name]), _seen(item, verdict, good)
        wrong = "" if seen == item.seen else f"{seen}, and '{item.seen}' was foreseen ({verdict['root']})"
        if codes != {item.code} | item.also:
            wrong = f"spectool says {', '.join(sorted(codes)) or 'nothing'}"
        shown = f"{_figures(verdict)[:2]} of {_figures(good)[:2]}" if verdict["ok"] else str(verdict["root"])[:60]
        held.append(Held(item, frozenset(codes), verdict["stage"], shown, wrong))
    return held


def thirds_table(held: Sequence[Held]) -> list[str]:
    """Return the section of docs/conformance.md about them."""
    ways = (STOPS, SAME, OTHER, APART)
    lines = ["", "## Faults held by their drafts", ""]
    lines += ["What vLLM runs in silence, over two prompts, beside the good pair (drafts and accepted tokens):", ""]
    lines += [f"| rule | faults | {' | '.join(ways)} | as predicted |", "|---" * (len(ways) + 3) + "|"]
    for code in sorted({item.item.code for item in held}):
        mine = [item for item in held if item.item.code == code]
        counts = [sum(item.item.seen == way for item in mine) for way in ways]
        good = sum(not item.wrong for item in mine)
        lines.append(f"| {code} | {len(mine)} | {' | '.join(map(str, counts))} | {good} |")
    return lines
