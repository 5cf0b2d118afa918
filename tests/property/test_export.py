"""Whatever a drafter's sizes are, each format holds it exactly or refuses it by a field that it really lacks."""

from __future__ import annotations

from dataclasses import replace

import drafters
from drafters import Size
from hypothesis import given
from hypothesis import strategies as st
from makers import MAKERS, sizes
from readings import run, trained, written

from spectool.dialects.detect import candidates, detect
from spectool.dialects.read import read_drafter
from spectool.dialects.record import Reading
from spectool.dialects.view import Spec, View
from spectool.drafter.compare import LABELS, differences
from spectool.drafter.model import Drafter
from spectool.formats.verifier import VerifierView
from spectool.writers.export import LackingError, Source, export
from spectool.writers.formats import FORMATS
from spectool.writers.layout import Lack
from spectool.writers.plan import OutputPlan

FLAT = [name for name in FORMATS if name != "speculators"]
# The format of each maker's own layout.
OWN = {
    "dflash": "zlab",
    "mimo": "vllm",
    "modelopt": "vllm",
    "dspark": "deepspec",
    "headless": "deepspec",
    "bonus": "vllm",
    "peagle": "vllm",
}


def exported(view: View, reading: Reading, verifier: VerifierView, name: str) -> OutputPlan:
    """The verifier's embedding and head are at hand, so that copies can be dropped."""
    size = verifier.vocab_size, verifier.hidden_size
    theirs = {"model.embed_tokens.weight": Spec("BF16", size), "lm_head.weight": Spec("BF16", size)}
    return export(Source(view=view, reading=reading, verifier=verifier, verifier_tensors=theirs, record=None), name)


def as_written(drafter: Drafter) -> Drafter:
    """A drafter with its aux layers ascending, no head of zeros, and DFlash under its own name."""
    drafter = replace(drafter, aux_layers=tuple(sorted(drafter.aux_layers or ())))
    if not drafter.headless:
        return drafter
    method = "dflash" if drafter.slots == "bonus-anchor" else "dspark"
    return replace(drafter, method=method, markov=None)


@given(sizes(), st.sampled_from(sorted(MAKERS)), st.sampled_from(FLAT), st.booleans())
def test_reading_what_was_written_gives_the_drafter_back(size: Size, maker: str, name: str, through: bool) -> None:
    """From the maker's own layout, or from the Speculators folder planned of it."""
    view, verifier = MAKERS[maker](size), drafters.verifier(size)
    reading = trained(view, verifier, speculative_tokens=size.block - 1)
    if through:
        plan = written(view, verifier, speculative_tokens=size.block - 1)
        view = plan.view("speculators")
        reading = read_drafter(view, detect(view), verifier=verifier, settings=plan.settled)
    refused: tuple[Lack, ...] = ()
    try:
        plan = exported(view, reading, verifier, name)
    except LackingError as error:
        refused = error.lacks
    if refused:
        # The embedding's output (aux layer 0) is no layer to z-lab's other readers.
        assert name != OWN[maker] or [lack.field for lack in refused] == ["aux_layers"]
        assert {lack.field for lack in refused} <= {*LABELS, "draft_vocab_size", "target_hidden_size"}
        return
    output = plan.view("output")
    assert len(candidates(output)) == 1
    again = read_drafter(output, detect(output), verifier=verifier, settings=plan.settled)
    assert (again.gaps, again.questions) == ((), ())
    assert differences(as_written(reading.drafter), again.drafter) == ()
    assert (again.drafter.block_size, again.drafter.speculative_tokens) == (
        reading.drafter.block_size,
        reading.drafter.speculative_tokens,
    )
    if FORMATS[name].served:
        engine = run(output, verifier)
        assert engine.refusals == ()
        assert differences(as_written(reading.drafter), engine.drafter) == ()


@given(sizes().filter(lambda size: 0 not in size.taps), st.sampled_from(sorted(MAKERS)))
def test_its_own_format_gives_the_tensors_back(size: Size, maker: str) -> None:
    view, verifier = MAKERS[maker](size), drafters.verifier(size)
    plan = written(view, verifier, speculative_tokens=size.block - 1)
    between = plan.view("speculators")
    reading = read_drafter(between, detect(between), verifier=verifier, settings=plan.settled)
    back = exported(between, reading, verifier, OWN[maker])
    taken = {tensor.name: tensor for tensor in plan.tensors}
    for tensor in back.tensors:
        assert (tensor.origin, tensor.order) == ("source", None) or tensor.source == ""
        first = taken.get(tensor.source)
        if first is not None and first.origin == "source" and not tensor.name.startswith("fc_norm."):
            assert first.source == tensor.name
    made = {"markov_head.markov_w1.weight", "markov_head.markov_w2.weight"} if maker == "mimo" else set()
    assert set(view.tensors) == {tensor.name for tensor in back.tensors} - made
