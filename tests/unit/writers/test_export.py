"""What each format holds: docs/export.md's table is made here, and each cell is an export that was planned or refused.

`SPECTOOL_UPDATE_GOLDEN=1 pytest` writes the table anew.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from dialect_fixtures import ALL, Fixture
from exports import WANTED, converted, source_of

from spectool.cli.convert import To
from spectool.drafter.compare import side_by_side
from spectool.engine.facts import engine_facts
from spectool.engine.reading.read import read_engine
from spectool.errors import RefusedError, UsageError
from spectool.writers.export import LackingError, export
from spectool.writers.formats import FORMATS
from spectool.writers.plan import OutputPlan
from spectool.writers.speculators import write_speculators

DOCS = Path(__file__).resolve().parents[3] / "docs" / "export.md"
FLAT = [name for name in FORMATS if name != "speculators"]
every = pytest.mark.parametrize("name", sorted(ALL))


def held(item: Fixture, name: str) -> str:
    try:
        if name != "speculators":
            export(source_of(item), name)
        else:
            source = source_of(item)
            tensors = source.verifier_tensors
            write_speculators(
                item.view, source.reading, verifier=item.verifier, verifier_name="v", verifier_tensors=tensors
            )
    except UsageError:
        return "if copies of the verifier's"
    except RefusedError:
        return ""
    return "yes"


def table() -> str:
    lines = [f"| drafter | {' | '.join(f'`{name}`' for name in FORMATS)} |", "|---|" + "---|" * len(FORMATS)]
    lines += [f"| {what} | {' | '.join(held(item, name) for name in FORMATS)} |" for what, item in WANTED.items()]
    return "\n".join(lines)


def test_the_documents_table_is_what_is_planned_and_refused() -> None:
    text = DOCS.read_text(encoding="utf-8")
    made = re.sub(r"(?<=<!-- table -->\n).*?(?=\n<!-- end -->)", lambda _: table(), text, flags=re.DOTALL)
    if os.environ.get("SPECTOOL_UPDATE_GOLDEN"):
        DOCS.write_text(made, encoding="utf-8")
    assert text == made


def test_the_command_line_offers_every_format() -> None:
    assert list(To) == list(FORMATS)


# The dialects that are output formats too, and the format they come back in.
BACK = {
    "dflash-zlab": "zlab",
    "dflash-modelopt": "vllm",
    "dflash-mimo": "vllm",
    "dspark-deepspec": "deepspec",
    "dspark-nemotron": "vllm",
    "dspark-specforge": "specforge",
    "peagle-specforge": "specforge",
    "peagle-vllm": "vllm",
}
# Spellings that come back as their dialect's plain one: `layers.0` or `logit_head.` in names.
RESPELLED = {"dspark-specforge-early"}
# Without a record, an embedding that was shipped scaled cannot be told from a trained one (test_export_folders.py); one
# with a row of its own for the mask token stays whole, for which MiMo's layout has no place.
NEEDS_RECORD = {"dflash-zlab-gemma", "dflash-mimo-mask"}
# SpecForge's files have no embedding; that verl-SpeCo's is a copy, only the verifier's weights show.
NEEDS_WEIGHTS = {"dspark-verl"}


@pytest.mark.parametrize(
    "name", [name for name, item in ALL.items() if item.dialect in BACK and name not in NEEDS_RECORD | NEEDS_WEIGHTS]
)
def test_there_and_back_again(name: str) -> None:
    """Source, Speculators, source format: the same reading, the same tensors of the same names."""
    item = ALL[name]
    plan = export(source_of(converted(item)), BACK[item.dialect])
    back = replace(item, view=plan.view("back"), settings=plan.settled)
    first, again = source_of(item).reading, source_of(back).reading
    assert again.dialect.file.dialect == item.dialect
    assert (again.gaps, again.questions) == ((), ())
    wanted = replace(first.drafter, aux_layers=tuple(sorted(first.drafter.aux_layers)))
    assert again.drafter == wanted
    if name not in RESPELLED:
        shapes = {key: spec for key, spec in back.view.tensors.items() if key != "mask_hidden"}
        assert shapes == {key: spec for key, spec in item.view.tensors.items() if key != "mask_hidden"}


@every
@pytest.mark.parametrize("name_of_format", FLAT)
def test_every_tensor_of_an_export_has_a_source_and_none_is_lost(name: str, name_of_format: str) -> None:
    item = ALL[name]
    try:
        plan = export(source_of(item), name_of_format)
    except (RefusedError, UsageError):
        return
    taken = [tensor.source for tensor in plan.tensors if tensor.origin == "source"]
    assert sorted([*taken, *plan.dropped]) == sorted(item.view.tensors)
    assert len({tensor.name for tensor in plan.tensors}) == len(plan.tensors)
    assert set(plan.restore) == set(plan.dropped)


@every
def test_vllm_reads_its_native_format_as_trained(name: str) -> None:
    item = ALL[name]
    source = source_of(item)
    if held(item, "vllm") == "":
        with pytest.raises(RefusedError, match=r"reduced vocabulary|no place for mask_embedding"):
            export(source, "vllm")
        return
    plan = export(source, "vllm")
    method = plan.drafter.method
    found = read_engine(plan.view("out"), method, engine_facts(), verifier=item.verifier)
    assert found.refusals == ()
    assert [row for row in side_by_side(plan.drafter, found.drafter) if not row.equal] == []


def refusal(item: Fixture, name: str) -> LackingError:
    with pytest.raises(LackingError) as error:
        export(source_of(item), name)
    return error.value


def test_a_refusal_names_field_value_and_who_can() -> None:
    error = refusal(ALL["dflash-mimo"], "zlab")
    assert error.message == "z-lab files cannot hold mimo: attention sinks yes; value scale 0.612"
    assert error.hint == "Exact in: speculators, vllm."
    assert [lack.field for lack in error.lacks] == ["sinks", "value_scale"]


@pytest.mark.parametrize(
    ("what", "name", "fields"),
    [
        ("DFlash, reduced vocabulary", "zlab", ["draft_vocab_size", "lm_head.weight", "d2t", "t2d"]),
        ("DFlash, aux layer 0 (the embedding)", "specforge", ["aux_layers"]),
        ("DFlash, part of each head rotated", "zlab", ["rope"]),
        ("DSpark, slot 0 given", "deepspec", ["slots"]),
        ("DSpark, yarn", "zlab", ["method"]),
        ("DSpark, no Markov head", "specforge", ["markov"]),
        ("P-EAGLE, q/k norms", "specforge", ["qk_norm"]),
    ],
)
def test_what_is_refused(what: str, name: str, fields: list[str]) -> None:
    assert sorted(lack.field for lack in refusal(WANTED[what], name).lacks) == sorted(fields)


def test_causality_is_written_where_the_layout_means_otherwise() -> None:
    causal = export(source_of(WANTED["DFlash, all layers causal"]), "zlab").config
    assert (causal["is_causal"], causal["dflash_config"]["causal"]) == (True, True)
    plan = export(source_of(ALL["dflash-zlab-mixed"]), "zlab")
    assert plan.config["sliding_window"] == 64
    assert "is_causal" not in plan.config  # sliding causal, full not: what the layout means by itself


def config_of(name: str, format_name: str) -> dict[str, object]:
    return dict(planned(name, format_name).config)


def planned(name: str, format_name: str) -> OutputPlan:
    return export(source_of(converted(ALL[name])), format_name)


def test_zlab_keys_are_where_every_reader_looks() -> None:
    config = config_of("dflash-zlab-kimi", "zlab")
    assert (config["architectures"], config["model_type"], config["block_size"]) == (["DFlashDraftModel"], "qwen3", 8)
    assert config["dflash_config"] == {"mask_token_id": 127, "target_layer_ids": [0, 2, 4]}
    assert config["num_target_layers"] == 8
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 150000.0
    assert config["rope_scaling"]["rope_type"] == "yarn"
    assert config_of("dflash-zlab-early", "zlab")["rope_scaling"] is None


def test_vllm_takes_the_plainest_layout() -> None:
    assert "attention_sink_bias" not in config_of("dflash-zlab-early", "vllm")["dflash_config"]
    assert config_of("dflash-modelopt", "vllm")["dflash_config"]["attention_sink_bias"] is True
    assert config_of("dflash-mimo", "vllm")["dflash_config"]["attention_value_scale"] == 0.612
    assert config_of("dspark-nemotron", "vllm")["dspark_bonus_anchor"] is True


def test_native_p_eagle_names_the_mask_token_for_old_releases_and_counts_its_layers() -> None:
    config = config_of("peagle-vllm-four", "vllm")
    assert (config["pard_token"], config["ptd_token_id"]) == (127, 127)
    assert config["num_aux_hidden_states"] == 4
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, 4, 6]
    assert config["eagle_config"] == {"eagle_aux_hidden_state_layer_ids": [1, 2, 4, 6]}
    assert planned("peagle-vllm-four", "vllm").settled == {"speculative_tokens": 5}
    names = {tensor.name for tensor in planned("peagle-vllm", "vllm").tensors}
    assert "midlayer.hidden_norm.weight" in names
    assert not any(name.startswith("layers.0.") for name in names)


def test_specforge_counts_outputs_and_always_has_a_map() -> None:
    plan = planned("peagle-verl", "specforge")
    assert plan.config["eagle_config"] == {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}
    made = {tensor.name: tensor for tensor in plan.tensors if tensor.name in {"d2t", "t2d"}}
    assert (made["d2t"].origin, made["t2d"].data) == ("zeros", b"\1" * 128)


def test_the_head_of_a_carrier_disappears_and_vllm_gets_one() -> None:
    carrier = converted(ALL["dspark-deepspec-dflash"])
    assert "markov_head.markov_w1.weight" in carrier.view.tensors
    plan = export(source_of(carrier), "deepspec")
    assert plan.config["markov_rank"] == 0
    assert not any("markov" in tensor.name for tensor in plan.tensors)
    assert plan.restore["markov_head.markov_w1.weight"].origin == "zeros"
    native = export(source_of(carrier), "vllm")
    assert native.config["markov_rank"] == 16
    assert {tensor.origin for tensor in native.tensors if "markov" in tensor.name} == {"zeros"}


def test_k_below_the_block_is_kept_beside_the_file() -> None:
    item = converted(ALL["dflash-zlab-early"])
    plan = export(source_of(replace(item, settings={"speculative_tokens": 3})), "zlab")
    assert plan.settled == {"speculative_tokens": 3}
    assert "serve it with 3, not 7" in " ".join(plan.notes)
