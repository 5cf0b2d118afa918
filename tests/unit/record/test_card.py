"""The model card: what it says, and that whatever a source wrote stays text."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import PAIRS, VERIFIER, both, folder, nothing, put

from spectool import api
from spectool.formats.provenance import AssumptionRecord, DroppedRecord, Origin, Provenance
from spectool.record.build import origin_of
from spectool.record.card import card, code, escaped
from spectool.record.load import read_record

MIXED = both(put("layer_types", ["sliding_attention", "full_attention"]), put("sliding_window", 8))


def made(
    tmp_path: Path, *, example: str = "dflash-zlab", change: Any = nothing, to: str = "speculators", **more: Any
) -> Path:
    source = folder(PAIRS / example, tmp_path / "source", change)
    (source / "LICENSE").write_text("text\n")
    (source / "README.md").write_text("---\nlicense: mit\n---\n")
    settings = {"verifier": "org/verifier", **more}
    plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=settings, to=to)
    api.convert(plan, tmp_path / "out", card="me/drafter")
    return tmp_path / "out"


def parts(text: str) -> tuple[dict[str, Any], str]:
    """Front matter and body."""
    _, front, body = text.split("---\n", 2)
    return dict(yaml.safe_load(front)), body


def command_of(text: str) -> list[str]:
    """The one shell command in a card."""
    fenced = re.findall(r"^(`{3,})sh\n(.*?)\n\1$", text, re.DOTALL | re.MULTILINE)
    assert len(fenced) == 1
    return shlex.split(fenced[0][1].replace(" \\\n  ", " "))


def test_what_a_card_says(tmp_path: Path) -> None:
    text = (made(tmp_path, block_size=6) / "README.md").read_text()
    front, body = parts(text)
    assert front == {
        "license": "mit",
        "base_model": ["org/verifier"],
        "library_name": "vllm",
        "pipeline_tag": "text-generation",
        "tags": ["speculative-decoding", "dflash", "speculators", "spectool"],
    }
    assert body.startswith("\n# me/drafter\n\nA DFlash drafter for `org/verifier`")
    assert "25 of 25 tensors hold the source's bytes unchanged" in body
    assert "block\\_size = 6: \\-\\-set block\\_size overrides" in body
    assert "engine\\-equal, that is: converted and native folder were seen to draft the same in vLLM" in body
    assert "The source's licence `mit` applies (`LICENSE`)." in body
    command = command_of(text)
    assert command[:3] == ["vllm", "serve", "org/verifier"]
    assert json.loads(command[-1]) == {"method": "dflash", "model": "me/drafter", "num_speculative_tokens": 5}


def test_a_carrier_is_served_as_what_carries_it(tmp_path: Path) -> None:
    text = (made(tmp_path, change=MIXED) / "README.md").read_text()
    assert json.loads(command_of(text)[-1])["method"] == "dspark"
    assert "A DFlash drafter" in text
    assert "`markov_head.markov_w1.weight`: zeros" in text


def test_p_eagle_is_served_in_parallel(tmp_path: Path) -> None:
    text = (made(tmp_path, example="peagle-native", to="vllm", speculative_tokens=5) / "README.md").read_text()
    assert json.loads(command_of(text)[-1]) == {
        "method": "eagle3",
        "parallel_drafting": True,
        "model": "me/drafter",
        "num_speculative_tokens": 5,
    }


def test_a_format_that_was_not_held_against_vllm_has_no_command(tmp_path: Path) -> None:
    text = (made(tmp_path, example="peagle-native", to="specforge", speculative_tokens=5) / "README.md").read_text()
    assert "vllm serve" not in text
    assert "Made for SGLang; SpecForge's trainer." in text


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Provenance:
    return read_record(made(tmp_path_factory.mktemp("card")))


def test_a_commit_of_the_hub_is_named(record: Provenance) -> None:
    where = Origin(name="z", repository="z-lab/Qwen3-8B-DFlash-b16", commit="a" * 40, sha256="b" * 64)
    front, body = parts(card(record.model_copy(update={"source": where})))
    assert front["base_model"] == ["z-lab/Qwen3-8B-DFlash-b16", "org/verifier"]
    assert f"`z-lab/Qwen3-8B-DFlash-b16` at commit `{'a' * 40}`" in body


def test_without_any_licence_the_card_says_so(record: Provenance) -> None:
    front, body = parts(card(record.model_copy(update={"licence": "", "files": ()})))
    assert "license" not in front
    assert "names no licence" in body
    front, _ = parts(card(record.model_copy(update={"licence": ""})))
    assert (front["license"], front["license_link"]) == ("other", "LICENSE")


HOSTILE = st.text(
    st.sampled_from(list("ab`*_[](){}<>&|#!\\\"'\n\r\t:-~$@^=+. \x00\x1b\u202e\u2028é😀")), max_size=30
) | st.sampled_from(
    ["---\nlicense: mit", "```\n$(reboot)", "<script>x</script>", "![x](http://x)", "'; reboot; '", "`"]
)


@settings(max_examples=300)
@given(HOSTILE, HOSTILE, HOSTILE)
def test_what_a_source_wrote_is_text(record: Provenance, first: str, second: str, third: str) -> None:
    hostile = record.model_copy(
        update={
            "source": record.source.model_copy(update={"name": first}),
            "verifier": record.verifier.model_copy(update={"name": second}),
            "assumptions": (AssumptionRecord(field=first, value=second, why=third),),
            "dropped": {second: DroppedRecord(why=third)},
            "answers": {"verifier": first},
            "notes": (third,),
            "licence": second,
            "card": "",
        }
    )
    text = card(hostile)
    front, body = parts(text)
    plain = card(record.model_copy(update={"card": "", "answers": {"a": 1}, "notes": ("n",)}))
    assert set(front) <= {"license", "base_model", "library_name", "pipeline_tag", "tags", "license_link"}
    assert [line for line in body.splitlines() if line.startswith("#")][1:] == [
        line for line in parts(plain)[1].splitlines() if line.startswith("#")
    ][1:]
    assert not re.search(r"<\w|[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", outside_code(body))
    command = command_of(text)
    assert (command[0], command[1], len(command)) == ("vllm", "serve", 5)


def outside_code(body: str) -> str:
    """A card without what stands in code, where nothing acts."""
    body = re.sub(r"^(`{3,}).*?^\1$", "", body, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", body)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b*c", r"a\_b\*c"),
        ("<b>&amp;", r"&lt;b\>&amp;amp;"),
        ("a\n# b", r"a \# b"),
        ("x|y", r"x\|y"),
        ("\x1b[1m", r"\\x1b\[1m"),
    ],
)
def test_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


@pytest.mark.parametrize(("text", "shown"), [("a", "`a`"), ("a`b", "`` a`b ``"), ("``", "``` `` ```"), ("", "` `")])
def test_code(text: str, shown: str) -> None:
    assert code(text) == shown


def test_an_origin_has_no_path(tmp_path: Path) -> None:
    assert str(tmp_path) not in origin_of("name", None, b"{}").model_dump_json()
