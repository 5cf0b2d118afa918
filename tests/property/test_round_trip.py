"""What must hold for every drafter: written and read again it is the same, and no tensor is lost or doubled."""

from __future__ import annotations

from dataclasses import replace

import drafters
from drafters import Size
from hypothesis import given
from hypothesis import strategies as st
from readings import run, trained, written

from spectool.dialects.detect import candidates, detect
from spectool.dialects.read import read_drafter
from spectool.drafter.model import Drafter

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 5e5}


@st.composite
def sizes(draw: st.DrawFn) -> Size:
    """Sizes of drafters that load: heads divide, aux layers exist, the mask is a row."""
    depth = draw(st.integers(4, 40))
    vocab = draw(st.sampled_from([128, 500]))
    layers = draw(st.integers(1, 4))
    extra: dict[str, object] = {}
    if draw(st.booleans()):
        extra["rope_parameters"] = YARN
    if draw(st.booleans()):
        extra |= {"layer_types": ["sliding_attention"] * layers, "sliding_window": 64, "use_sliding_window": True}
    return Size(
        layers=layers,
        hidden=draw(st.sampled_from([32, 48])),
        heads=draw(st.sampled_from([2, 4])),
        kv_heads=draw(st.sampled_from([1, 2])),
        head_dim=draw(st.sampled_from([8, 16])),
        vocab=vocab,
        draft_vocab=vocab,
        depth=depth,
        taps=tuple(draw(st.lists(st.integers(0, depth), min_size=1, max_size=5, unique=True))),
        block=draw(st.integers(2, 16)),
        mask=draw(st.integers(0, vocab - 1)),
        rank=draw(st.sampled_from([1, 16])),
        theta=draw(st.sampled_from([1e4, 1e6, 1e7])),
        extra=extra,
        biases=draw(st.booleans()),
        fc_norm=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        confidence=draw(st.booleans()),
        with_markov=draw(st.booleans()),
    )


MAKERS = {"dflash": drafters.zlab, "dspark": drafters.deepspec, "peagle": drafters.peagle}


def ascending(drafter: Drafter) -> Drafter:
    """The drafter as written: aux layers in ascending order."""
    return replace(drafter, aux_layers=tuple(sorted(drafter.aux_layers or ())))


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_reading_what_was_written_gives_the_drafter_back(size: Size, method: str) -> None:
    view, verifier = MAKERS[method](size), drafters.verifier(size)
    source = trained(view, verifier, speculative_tokens=size.block - 1)
    plan = written(view, verifier, speculative_tokens=size.block - 1)
    output = plan.view("output")
    again = read_drafter(output, detect(output), verifier=verifier, settings=plan.settled)
    assert again.gaps == ()
    assert again.drafter == ascending(source.drafter)
    engine = run(output, verifier)
    assert engine.refusals == ()
    # The engine has no block for P-EAGLE, and DFlash's is not read from a Speculators file.
    assert replace(engine.drafter, block_size=source.drafter.block_size) == ascending(source.drafter)


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_every_tensor_is_placed_once(size: Size, method: str) -> None:
    view = MAKERS[method](size)
    plan = written(view, drafters.verifier(size), speculative_tokens=3)
    sources = [tensor.source for tensor in plan.tensors] + list(plan.dropped)
    assert sorted(sources) == sorted(view.tensors)
    assert len({tensor.name for tensor in plan.tensors}) == len(plan.tensors)


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_column_blocks_follow_their_aux_layers(size: Size, method: str) -> None:
    plan = written(MAKERS[method](size), drafters.verifier(size), speculative_tokens=3)
    fc = next(tensor for tensor in plan.tensors if tensor.name == "fc.weight")
    order = fc.order or tuple(range(len(size.taps)))
    assert [size.taps[block] for block in order] == sorted(size.taps)
    if size.fc_norm and method == "peagle":
        norms = {tensor.name: tensor.source for tensor in plan.tensors if tensor.name.startswith("fc_norm.")}
        assert norms == {f"fc_norm.{place}.weight": f"fc_norm.{block}.weight" for place, block in enumerate(order)}


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_exactly_one_dialect_matches(size: Size, method: str) -> None:
    view = MAKERS[method](size)
    plan = written(view, drafters.verifier(size), speculative_tokens=3)
    assert len(candidates(view)) == 1
    assert [item.file.dialect for item in candidates(plan.view("output"))] == [f"{method}-speculators"]
