"""The table of all rules: how often each was held against the engine, or why it was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from launches import Said

from spectool.rules.registry import rules

_GPU = "kernels of quantised weights need a GPU"
WHY_NOT = {
    "ADV005": _GPU,
    "BKD003": "FlashInfer needs a GPU",
    "BUD004": "the memory profile needs a GPU",
    "CAC001": "beside a verifier of mixed attention only; the grouping is held in tests/engine/test_plan_flags.py",
    "DTY001": "a warning: vLLM runs it; overflow shows in large models",
    "DTY002": "a warning: vLLM runs it; overflow shows in large models",
    "ENG001": "about other releases than the one asked",
    "ENG002": "about other releases than the one asked",
    "FEA004": "a warning from reports: hits of the prefix cache beside recurrent layers",
    "HED004": "no config parts the two readings here: a guard",
    "HED006": "a warning: which CPUs stop at rank 0 differs",
    "MSK005": "a file beside the weights; vLLM is silent",
    "PAR003": "needs stages on several devices",
    "PAR004": "a warning: needs ranks on several devices",
    "QNT001": f"with weights: {_GPU}",
    "QNT002": f"with weights: {_GPU}",
    "QNT003": "about releases before the one asked",
    "SCH001": "of a file alone, before any engine",
    "SCH002": "of a file alone, before any engine",
    "SCH003": "of a file alone, before any engine",
    "SLT005": "a warning: the engine drafts any number of positions",
    "VER003": "takes a verifier of another width",
    "VER005": "of the short form, which needs the Hub",
    "VER006": "vLLM reads no tokenizer of a drafter: silent",
    "WGT001": "values of weights: vLLM is silent",
    "WGT002": "values of weights: vLLM is silent",
    "WGT004": "values of weights: vLLM is silent",
}


def rules_table(pairs: Mapping[str, int], said: Sequence[Said]) -> list[str]:
    """Return the section: `pairs` counts pairs by the codes spectool named for them."""
    launched = Counter(code for item in said for code in (*item.codes, *item.others))
    lines = ["", "## Rules seen at work", "", "| rule | severity | pairs | launches | where it was not asked, why |"]
    lines.append("|---|---|---|---|---|")
    for code, item in rules().items():
        why = ""
        if not pairs.get(code) and not launched[code]:
            why = "a note: it says nothing of how vLLM ends" if item.severity == "note" else "**not asked**"
        why = WHY_NOT.get(code, why)
        lines.append(f"| {code} | {item.severity} | {pairs.get(code, 0)} | {launched[code]} | {why} |")
    return lines
