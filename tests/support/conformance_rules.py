"""The table of all rules: how often each was held against the engine, or why it was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from boundaries import BOUNDARIES, Boundary
from faults import CONVERTED_FAULTS, NATIVE_FAULTS
from launch_faults import LAUNCHES
from launches import OUT_OF_REACH, VERSION, Said
from more_faults import MORE_FAULTS
from third_faults import THIRD_FAULTS
from third_launches import THIRD_LAUNCHES, THIRD_PAIRS
from third_runs import Held

from spectool.rules.registry import rules

FEWEST = 3  # mutations of each rule that are put to the engine
WHY_NOT = {
    "ENG001": "about other releases than the one asked",
    "ENG002": "about other releases than the one asked",
    "HED004": "no config parts the two readings here: a guard",
    "HED006": "a warning: which CPUs stop at rank 0 differs",
    "QNT003": "about releases before the one asked",
    "SCH001": "of a file alone, before any engine",
    "SCH002": "of a file alone, before any engine",
    "SCH003": "of a file alone, before any engine",
}


def asked_as_pair(item: Boundary) -> bool:
    """Whether a boundary is run as a pair.

    What speaks of other releases or of the verifier is not; nor is what a CPU has no kernels for.
    """
    plain = item.oracle and item.of == "drafter" and item.engine == ("0.33.0", "0.33.0")
    return plain and not item.code.startswith("QNT")


def asked_as_launch(item: Boundary) -> bool:
    """Whether a boundary is put to vLLM's configuration: quantised drafters are, with a GPU that is pretended."""
    return (
        item.code.startswith("QNT") and item.of == "drafter" and item.engine[0] == "0.33.0" and item.layout == "native"
    )


def mutations_by_rule() -> Counter[str]:
    """Count the planted faults of all tables by the rule that must speak; ranges and tensors left out come on top."""
    found: Counter[str] = Counter()
    for *_, codes in NATIVE_FAULTS + CONVERTED_FAULTS:
        found.update(codes)
    found.update(item.code for item in BOUNDARIES if asked_as_pair(item) or asked_as_launch(item))
    found.update(code for code, *_ in MORE_FAULTS)
    for code, _, words, *_, engine in LAUNCHES + THIRD_LAUNCHES:
        reached = not any(name in word for name in OUT_OF_REACH for word in words)
        found[code] += reached and engine in (VERSION, "0.33.0")
    found.update(item.code for item in THIRD_PAIRS)
    found.update(item.code for item in THIRD_FAULTS)
    return found


def rules_table(pairs: Mapping[str, int], said: Sequence[Said], held: Sequence[Held]) -> list[str]:
    """Return the section: `pairs` counts pairs by the codes spectool named for them."""
    launched = Counter(code for item in said for code in (*item.codes, *item.others))
    seen = Counter(pairs) + Counter(code for item in held for code in item.codes)
    lines = ["", "## Rules seen at work", "", "| rule | severity | pairs | launches | where it was not asked, why |"]
    lines.append("|---|---|---|---|---|")
    for code, item in rules().items():
        few = not seen[code] and not launched[code]
        why = WHY_NOT.get(code, "**not asked**" if few else "")
        lines.append(f"| {code} | {item.severity} | {seen[code]} | {launched[code]} | {why} |")
    return lines
