"""What must hold for every drafter: written and read again it is the same, and no tensor is lost or doubled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import drafters
from dialect_fixtures import ALL
from drafters import Size
from hypothesis import assume, given
from hypothesis import strategies as st
from makers import MAKERS, sizes
from readings import run, trained, written

from spectool.dialects.detect import candidates, detect
from spectool.dialects.read import read_drafter
from spectool.drafter.compare import differences
from spectool.drafter.model import Drafter
from spectool.writers.speculators import write_speculators

KINDS = {"headless": "dspark", "mimo": "dspark", "modelopt": "dflash", "bonus": "dspark"}


def kind_of(size: Size, maker: str) -> str:
    """The Speculators kind that holds the drafter: mixed causality and value scales need a carrier."""
    kinds = set(size.extra.get("layer_types", ["full_attention"]))
    if maker in {"dflash", "modelopt"} and len(kinds) > 1:
        return "dspark"
    return KINDS.get(maker, maker)


def ascending(drafter: Drafter) -> Drafter:
    """The drafter as written: aux layers in ascending order."""
    return replace(drafter, aux_layers=tuple(sorted(drafter.aux_layers or ())))


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_reading_what_was_written_gives_the_drafter_back(size: Size, maker: str) -> None:
    view, verifier = MAKERS[maker](size), drafters.verifier(size)
    source = trained(view, verifier, speculative_tokens=size.block - 1)
    plan = written(view, verifier, speculative_tokens=size.block - 1)
    output = plan.view("output")
    again = read_drafter(output, detect(output), verifier=verifier, settings=plan.settled)
    assert again.gaps == ()
    assert again.questions == ()
    assert differences(ascending(source.drafter), again.drafter) == ()
    if not plan.carrier:
        assert again.drafter == ascending(source.drafter)
    engine = run(output, verifier)
    assert engine.refusals == ()
    assert differences(ascending(source.drafter), engine.drafter) == ()
    # The engine has no block for P-EAGLE, and DFlash's is not read from a Speculators file.
    assert (engine.drafter.speculative_tokens, engine.drafter.max_position_embeddings) == (
        source.drafter.speculative_tokens,
        source.drafter.max_position_embeddings,
    )


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_a_carrier_is_taken_only_where_it_is_needed(size: Size, maker: str) -> None:
    plan = written(MAKERS[maker](size), drafters.verifier(size), speculative_tokens=3)
    assert plan.config["speculators_model_type"] == kind_of(size, maker)
    zeros = {tensor.name for tensor in plan.tensors if tensor.origin == "zeros"}
    assert (
        bool(zeros)
        == plan.carrier
        == (maker in {"headless", "mimo"} or kind_of(size, maker) != KINDS.get(maker, maker))
    )
    assert zeros <= {"markov_head.markov_w1.weight", "markov_head.markov_w2.weight"}


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_every_tensor_is_placed_once(size: Size, maker: str) -> None:
    view = MAKERS[maker](size)
    plan = written(view, drafters.verifier(size), speculative_tokens=3)
    sources = [tensor.source for tensor in plan.tensors if tensor.origin == "source"] + list(plan.dropped)
    assert sorted(sources) == sorted(view.tensors)
    assert len({tensor.name for tensor in plan.tensors}) == len(plan.tensors)


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_column_blocks_follow_their_aux_layers(size: Size, maker: str) -> None:
    plan = written(MAKERS[maker](size), drafters.verifier(size), speculative_tokens=3)
    fc = next(tensor for tensor in plan.tensors if tensor.name == "fc.weight")
    order = fc.order or tuple(range(len(size.taps)))
    assert [size.taps[block] for block in order] == sorted(size.taps)
    if size.fc_norm and maker == "peagle":
        norms = {tensor.name: tensor.source for tensor in plan.tensors if tensor.name.startswith("fc_norm.")}
        assert norms == {f"fc_norm.{place}.weight": f"fc_norm.{block}.weight" for place, block in enumerate(order)}


@given(sizes(), st.sampled_from(sorted(MAKERS)))
def test_exactly_one_dialect_matches(size: Size, maker: str) -> None:
    view = MAKERS[maker](size)
    plan = written(view, drafters.verifier(size), speculative_tokens=3)
    assert len(candidates(view)) == 1
    kind = plan.config["speculators_model_type"]
    assert [item.file.dialect for item in candidates(plan.view("output"))] == [f"{kind}-speculators"]


@given(st.sampled_from(sorted(ALL)), st.permutations(range(3)))
def test_any_order_of_aux_layers_in_any_dialect(name: str, order: list[int]) -> None:
    item = ALL[name]
    config = reordered(dict(item.view.config), order)
    assume(config is not None)
    view = replace(item.view, config=config)
    reading = read_drafter(view, detect(view), verifier=item.verifier, settings=item.settings)
    assert reading.gaps == ()
    plan = write_speculators(
        view, reading, verifier=item.verifier, verifier_name="v", verifier_tensors=item.verifier_tensors
    )
    fc = next(tensor for tensor in plan.tensors if tensor.name == "fc.weight")
    stated = reading.drafter.aux_layers
    assert [stated[block] for block in fc.order or range(3)] == sorted(stated)
    assert plan.drafter.aux_layers == tuple(sorted(stated))


def reordered(config: dict[str, Any], order: list[int]) -> dict[str, Any] | None:
    """Every list of aux layers in another order; None where the folder states none, or not three."""
    lists = 0
    for key, value in list(config.items()):
        if isinstance(value, dict):
            inner = reordered(dict(value), order)
            lists += inner is not None
            config[key] = inner or value
        elif key.endswith("layer_ids") and isinstance(value, list) and len(value) == 3:
            config[key] = [value[place] for place in order]
            lists += 1
    return config if lists else None
