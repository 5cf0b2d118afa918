"""Every dialect and generation: recognised by exactly one dialect file, read as trained, and its plan kept.

Plans are golden files in tests/golden/conversions; `SPECTOOL_UPDATE_GOLDEN=1 pytest` writes them anew.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import drafters
import pytest
from dialect_fixtures import ALL, Fixture
from drafters import Size, Spec

from spectool.dialects.detect import candidates, detect
from spectool.dialects.read import read_drafter
from spectool.dialects.record import Reading
from spectool.drafter.compare import side_by_side
from spectool.engine.facts import engine_facts
from spectool.engine.reading.read import read_engine
from spectool.errors import QuestionError, RefusedError, UsageError
from spectool.writers.plan import OutputPlan
from spectool.writers.speculators import write_speculators

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "conversions"
every = pytest.mark.parametrize("name", sorted(ALL))


def reading(item: Fixture, **more: Any) -> Reading:
    return read_drafter(item.view, detect(item.view), verifier=item.verifier, settings={**item.settings, **more})


def planned(item: Fixture) -> OutputPlan:
    return write_speculators(
        item.view,
        reading(item),
        verifier=item.verifier,
        verifier_name="org/verifier",
        verifier_tensors=item.verifier_tensors,
    )


@every
def test_exactly_one_dialect_fits(name: str) -> None:
    assert [dialect.file.dialect for dialect in candidates(ALL[name].view)] == [ALL[name].dialect]


@every
def test_nothing_is_open_or_faulty_once_the_answers_are_given(name: str) -> None:
    found = reading(ALL[name])
    assert (found.gaps, found.questions) == ((), ())
    assert (found.placements.unplaced, found.placements.collisions) == ((), ())


@every
def test_the_engine_runs_the_plan_as_the_drafter_was_trained(name: str) -> None:
    item = ALL[name]
    plan = planned(item)
    output = plan.view("output")
    kind = plan.config["speculators_model_type"]
    engine = read_engine(output, kind, engine_facts(), verifier=item.verifier)
    assert engine.refusals == ()
    assert [row for row in side_by_side(plan.drafter, engine.drafter) if not row.equal] == []
    again = read_drafter(output, detect(output), verifier=item.verifier, settings=plan.settled)
    assert again.gaps == ()
    assert [row for row in side_by_side(plan.drafter, again.drafter) if not row.equal] == []


@every
def test_no_tensor_is_lost_or_doubled(name: str) -> None:
    plan = planned(ALL[name])
    sources = [item.source for item in plan.tensors if item.origin == "source"] + list(plan.dropped)
    assert sorted(sources) == sorted(ALL[name].view.tensors)
    assert len({item.name for item in plan.tensors}) == len(plan.tensors)


@every
def test_the_plan_is_the_golden_one(name: str) -> None:
    plan = planned(ALL[name])
    found = {
        "dialect": ALL[name].dialect,
        "config": plan.config,
        "tensors": {item.name: [item.dtype, list(item.shape), item.source, item.operation] for item in plan.tensors},
        "dropped": plan.dropped,
        "settled": plan.settled,
        "notes": list(plan.notes),
        "assumptions": [[item.field, item.value, item.why] for item in reading(ALL[name]).assumptions],
    }
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    path = GOLDEN / f"{name}.json"
    if os.environ.get("SPECTOOL_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name}: SPECTOOL_UPDATE_GOLDEN=1 pytest writes it anew"


def test_no_golden_file_is_left_over() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == sorted(ALL)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("dflash-zlab-gptoss", "attention_bias", True),
        ("dflash-zlab-gemma", "embedding_scale", 5.65625),
        ("dflash-mimo", "value_scale", 0.612),
        ("dflash-modelopt", "sinks", True),
        ("dflash-torchspec", "speculative_tokens", 15),
        ("dspark-deepspec-dflash", "speculative_tokens", 7),
        ("dspark-deepspec-dflash", "slots", "anchor-first"),
        ("dspark-deepspec-dflash", "markov", None),
        ("dspark-deepspec-embedding-tap", "aux_layers", (0, 4, 6)),
        ("dspark-nemotron", "speculative_tokens", 7),
        ("dspark-lfm2", "speculative_tokens", 9),
        ("dspark-labelled", "speculative_tokens", 7),
        ("peagle-nemo", "aux_layers", (2, 4, 5)),
        ("peagle-nemo", "speculative_tokens", 6),
        ("peagle-nemo", "attention_bias", True),
        ("peagle-specforge", "aux_layers", (2, 4, 5)),
    ],
)
def test_what_is_special_is_read(name: str, field: str, value: object) -> None:
    assert getattr(reading(ALL[name]).drafter, field) == value


def shown(name: str, field: str) -> set[str]:
    value = getattr(reading(ALL[name]).drafter, field)
    return {str(item) for item in value} if isinstance(value, tuple) else {str(value)}


@pytest.mark.parametrize(
    ("name", "attention"),
    [
        ("dflash-zlab-mixed", {"window 64, causal", "full, bidirectional"}),
        ("dflash-modelopt", {"window 32, bidirectional"}),  # use_swa narrows, it does not turn causal
        ("dflash-nemotron", {"window 32, causal"}),
        ("dflash-mimo", {"window 32, bidirectional"}),
        ("dflash-muse", {"window 64, bidirectional"}),
        ("dspark-nemotron", {"window 32, causal"}),
        ("peagle-nemo", {"full, causal"}),  # layer_types is gpt-oss's own
    ],
)
def test_attention(name: str, attention: set[str]) -> None:
    assert shown(name, "attention") == attention


@pytest.mark.parametrize(
    ("name", "rope"),
    [
        ("dflash-mimo", "default, theta 10000, 4 dims rotated"),
        (
            "dflash-zlab-gptoss",
            "yarn, theta 150000, 8 dims rotated, factor 32.0, original_max_position_embeddings 64.0",
        ),
        ("dspark-deepspec-qwen35", "default, theta 10000, 8 dims rotated"),  # inherited partial_rotary_factor
        ("dspark-lfm2", "default, theta 10000, 8 dims rotated, interleaved"),
        ("peagle-specforge", "default, theta 150000, 8 dims rotated"),  # the model ignores rope_scaling
    ],
)
def test_rope(name: str, rope: str) -> None:
    assert shown(name, "rope") == {rope}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("dflash-zlab-kimi", {"rope.attention_factor"}),
        ("dflash-torchspec", {"block_size"}),
        ("dspark-labelled", {"slot_layout"}),
        ("peagle-specforge", {"speculative_tokens", "mask_token_id"}),
        ("peagle-vllm", {"speculative_tokens"}),
    ],
)
def test_what_a_producer_does_not_say_is_asked(name: str, keys: set[str]) -> None:
    item = replace(ALL[name], settings={})
    found = reading(item)
    assert {question.key for question in found.questions} == keys
    assert all(question.plausible and question.why for question in found.questions)
    with pytest.raises(QuestionError):
        found.require_answers()


def test_the_amplitudes_offered_for_kimi() -> None:
    (question,) = reading(replace(ALL["dflash-zlab-kimi"], settings={})).questions
    assert question.plausible == ("1", "1.34657359")  # 0.1 ln 32 + 1
    scaling = dict(reading(ALL["dflash-zlab-kimi"]).drafter.rope.scaling)
    assert scaling["attention_factor"] == 1.0
    assert "mscale" not in scaling


def test_the_width_of_rope_is_asked_where_the_trainer_is_not_known() -> None:
    item = ALL["dspark-labelled"]
    view = replace(item.view, config={**item.view.config, "partial_rotary_factor": 0.5})
    (question,) = reading(replace(item, view=view)).questions
    assert (question.key, question.plausible) == ("rope.partial", ("1", "0.5"))
    assert reading(item).questions == ()  # near miss: nothing partial is written
    for answer, width in ((1.0, 8), (0.5, 4)):
        found = reading(replace(item, view=view), **{"rope.partial": answer})
        assert (found.questions, found.drafter.rope.rotary_dim) == ((), width)


def test_muse_needs_its_verifier_for_the_vocabulary() -> None:
    found = read_drafter(ALL["dflash-muse"].view, detect(ALL["dflash-muse"].view))
    assert [question.key for question in found.questions] == ["verifier"]
    assert reading(ALL["dflash-muse"]).drafter.dimensions.vocab_size == 128


def test_gemma_without_a_verifier_is_a_question() -> None:
    item = ALL["dflash-zlab-early"]
    view = replace(item.view, config={**item.view.config, "vocab_size": 262144})
    found = read_drafter(view, detect(view))
    assert [(question.key, question.plausible) for question in found.questions] == [
        ("embedding_scale", ("5.65625", "1"))
    ]
    assert read_drafter(item.view, detect(item.view)).questions == ()
    settled = read_drafter(view, detect(view), settings={"embedding_scale": 1.0})
    assert (settled.questions, settled.drafter.embedding_scale) == ((), 1.0)


@pytest.mark.parametrize("name", ["dflash-modelopt", "dspark-modelopt"])
def test_modelopt_has_two_ways_to_embed_for_gemma(name: str) -> None:
    gemma = drafters.verifier(Size(), model_type="gemma4", architectures=["Gemma4ForConditionalGeneration"])
    item = replace(ALL[name], verifier=gemma, verifier_tensors={"model.embed_tokens.weight": Spec("BF16", (128, 32))})
    assert [(one.key, one.plausible) for one in reading(item).questions] == [("embedding_scale", ("5.65625", "1"))]
    assert reading(ALL[name]).questions == ()
    for scale, ships in ((5.65625, True), (1.0, False)):
        plan = planned(replace(item, settings={"embedding_scale": scale}))
        assert ("embed_tokens.weight" in {tensor.name for tensor in plan.tensors}) is ships
    own = replace(ALL["dflash-nemotron"], verifier=gemma)
    assert reading(own).questions == ()  # an embedding of its own says how it was trained


def test_layers_named_in_both_conventions_must_agree() -> None:
    item = ALL["dspark-nemotron"]
    view = replace(item.view, config={**item.view.config, "eagle_aux_hidden_state_layer_ids": [0, 2, 4]})
    gaps = read_drafter(view, detect(view), verifier=item.verifier).gaps
    assert [(gap.field, gap.kind) for gap in gaps] == [("aux_layers", "conflict")]


def test_a_nemo_drafter_may_be_causal() -> None:
    item = ALL["dflash-nemo"]
    assert [assumed.field for assumed in reading(item).assumptions] == ["attention"]
    own = {**item.view.config["dflash_config"], "causal": True}
    stated = replace(item, view=replace(item.view, config={**item.view.config, "dflash_config": own}))
    assert reading(stated).assumptions == ()
    assert {str(layer) for layer in reading(stated).drafter.attention} == {"full, causal"}
    assert reading(item, causal=True).drafter.attention == reading(stated).drafter.attention


def test_a_row_for_the_mask_token_is_laid_into_the_verifiers_embedding() -> None:
    plan = planned(ALL["dflash-mimo-mask"])
    (made,) = [item for item in plan.tensors if item.name == "embed_tokens.weight"]
    assert (made.source, made.into, made.row) == ("mask_embedding.pt:", "model.embed_tokens.weight", 127)
    assert reading(ALL["dflash-mimo-mask"]).assumptions == ()
    assert [item.field for item in reading(ALL["dflash-mimo"]).assumptions] == ["mask_token_id"]
    with pytest.raises(UsageError, match="has to be shipped"):
        planned(replace(ALL["dflash-mimo-mask"], verifier_tensors=None))


@pytest.mark.parametrize("spec", [Spec("F32", (32,)), Spec("BF16", (31,)), Spec("BF16", (1, 1, 32))])
def test_a_row_of_another_kind_is_refused(spec: Spec) -> None:
    item = ALL["dflash-mimo-mask"]
    view = replace(item.view, tensors={**item.view.tensors, "mask_embedding.pt:": spec})
    with pytest.raises(RefusedError, match="no row in bf16"):
        planned(replace(item, view=view))


def test_fixtures_are_headers_only() -> None:
    assert all(item.view.read is None for item in ALL.values())
    assert all(isinstance(spec, Spec) for item in ALL.values() for spec in item.view.tensors.values())
