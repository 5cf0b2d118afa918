"""Hold exactly as Speculators `dspark` what Speculators `dflash` cannot: a carrier.

DSpark is DFlash's decoder with a Markov head on top. With `sample_from_anchor: false`, no confidence head and a Markov
head of zeros, vLLM's `dspark` drafts exactly as its `dflash` (tests/engine/test_carriers.py: same drafts, same
acceptances), and it reads what its translation of Speculators `dflash` overwrites or has one flag for. The same head
serves a DSpark drafter that was trained without one, since vLLM always builds it.
"""

from __future__ import annotations

from spectool.drafter.model import Dimensions, Drafter
from spectool.writers.plan import PlannedTensor

# Some kernels only draft with a rank of 0 (rule HED006); 16 is the smallest width matrix kernels are used with.
RANK = 16
_BYTES = {"BF16": 2, "F16": 2, "F32": 4}
UNPROVEN = "no run on a GPU has confirmed this form; it was compared with the native folder on a CPU"


def reasons(drafter: Drafter) -> list[str]:
    """Return what a plan has to say of its carrier; empty where none is needed."""
    size = drafter.dimensions
    if drafter.method == "dflash":
        causes = []
        if len({item.causal for item in drafter.attention}) > 1:
            causes.append("causal and bidirectional layers side by side")
        if drafter.value_scale != 1.0:
            causes.append(f"a value scale of {drafter.value_scale:g}")
        if not causes:
            return []
        cause = " and ".join(causes)
        what = f"carried as Speculators `dspark` with a Markov head of zeros: `dflash` cannot hold {cause}"
    elif drafter.method == "dspark" and drafter.markov is None:
        what = "a Markov head of zeros is added: the drafter has none, and vLLM always builds one"
    else:
        return []
    values = (size.vocab_size + size.draft_vocab_size) * RANK
    cost = f"it costs {values * 2 / 1e6:.3g} MB and two small products per token, and needs model runner V2"
    return [what, cost, UNPROVEN]


def zero_head(size: Dimensions, dtype: str) -> tuple[PlannedTensor, ...]:
    """Return the two tensors of a Markov head of zeros: w1 [vocab, rank], w2 [draft vocab, rank]."""
    rows = {"w1": size.vocab_size, "w2": size.draft_vocab_size}
    return tuple(
        PlannedTensor(f"markov_head.markov_{part}.weight", dtype, (count, RANK), "", "zeros", origin="zeros")
        for part, count in rows.items()
    )
